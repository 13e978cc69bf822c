#include "autocast/policy_slot.h"

#include <ATen/autocast_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>

namespace ampcast::autocast {

namespace {

// Indexed by PolicyId.
constexpr std::array<std::string_view, 2> kNames = {"torch", "default"};
static_assert(kNames.size() == static_cast<std::size_t>(PolicyId::count));

// Under a compiled region only these dtypes pass torch's own check for a device type without hardware.
constexpr c10::ScalarType kDefaultPolicyDtype = c10::ScalarType::BFloat16;

} // namespace

PolicyId policy_id(std::string_view policy) {
  const auto found = std::ranges::find(kNames, policy);
  TORCH_CHECK_VALUE(found != kNames.end(), "autocast: `policy` must be \"default\" or \"torch\", got \"", policy, "\"");
  return static_cast<PolicyId>(found - kNames.begin());
}

std::string_view policy_name(PolicyId policy) {
  return kNames.at(static_cast<std::size_t>(policy));
}

PolicySlot slot_of(PolicyId policy) {
  return {policy != PolicyId::torch, kDefaultPolicyDtype};
}

PolicySlot read_slot() {
  return {at::autocast::is_autocast_enabled(kSlotDevice), at::autocast::get_autocast_dtype(kSlotDevice)};
}

void write_slot(PolicySlot slot) {
  at::autocast::set_autocast_enabled(kSlotDevice, slot.enabled);
  at::autocast::set_autocast_dtype(kSlotDevice, slot.dtype);
}

PolicyId active_policy() {
  return at::autocast::is_autocast_enabled(kSlotDevice) ? PolicyId::default_ : PolicyId::torch;
}

} // namespace ampcast::autocast
