#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string_view>

/// Where a thread keeps the id of its cast policy.
///
/// torch carries (autocast enabled, autocast dtype) of every device type to backward threads, guards compiled graphs on
/// it, restores it inside them and keys its caches with it. So the id is written as that pair of a device type that no
/// tensor ever lives on, and goes wherever the real autocast state goes.
namespace ampcast::autocast {

/// Identifies a cast policy in this process. `torch` is what a thread has that is in no ampcast region.
enum class PolicyId : uint8_t { torch, default_, count };

/// The device type that carries the id.
inline constexpr c10::DeviceType kSlotDevice = c10::DeviceType::IPU;

/// The slot's raw value. Off means `PolicyId::torch`.
struct PolicySlot {
  bool enabled;
  c10::ScalarType dtype;
};

/// The id named `policy`.
/// \throws c10::ValueError if there is none, with the names that exist.
PolicyId policy_id(std::string_view policy);

std::string_view policy_name(PolicyId policy);

/// The slot value that stands for `policy`.
PolicySlot slot_of(PolicyId policy);

PolicySlot read_slot();
void write_slot(PolicySlot slot);

/// The id that the calling thread's slot holds.
PolicyId active_policy();

} // namespace ampcast::autocast
