#pragma once

#include "autocast/policy_slot.h"
#include "autocast/torch_version.h"

#include <ampcast/cast_policy.h>

#include <array>
#include <cstddef>
#include <string>

/// The cast list as data: an index for each op, and the rule of each policy for each op.
namespace ampcast::autocast {

/// One enumerator a listed overload, named after its struct in at::_ops.
enum class Op : uint16_t {
#define AMPCAST_CAST_RULE(op, cpu, cuda) op,
#include "autocast/cast_lists.def"
  count
};

inline constexpr std::size_t kOps = static_cast<std::size_t>(Op::count);
inline constexpr std::size_t kPolicies = static_cast<std::size_t>(PolicyId::count);

/// The name of an overload as torch and users write it, such as "aten::conv2d.padding"; `AtenOp` is its at::_ops struct.
template <class AtenOp>
std::string qualified_name() {
  const std::string overload = AtenOp::overload_name;
  return overload.empty() ? AtenOp::name : AtenOp::name + ("." + overload);
}

using RuleTable = std::array<CastRule, kOps>;

/// torch's own rules on CPU and on CUDA.
inline constexpr RuleTable kTorchCpuRules = {
#define AMPCAST_CAST_RULE(op, cpu, cuda) CastRule::cpu,
#include "autocast/cast_lists.def"
};
inline constexpr RuleTable kTorchCudaRules = {
#define AMPCAST_CAST_RULE(op, cpu, cuda) CastRule::cuda,
#include "autocast/cast_lists.def"
};

/// Rules by policy id. The policies "torch" and "default" are both torch's lists.
template <c10::DeviceType kDevice>
inline constexpr std::array<RuleTable, kPolicies> kRules = {};
template <>
inline constexpr std::array<RuleTable, kPolicies> kRules<c10::DeviceType::CPU> = {kTorchCpuRules, kTorchCpuRules};
template <>
inline constexpr std::array<RuleTable, kPolicies> kRules<c10::DeviceType::CUDA> = {kTorchCudaRules, kTorchCudaRules};

/// The rule for `op` on `kDevice` under the calling thread's policy.
template <c10::DeviceType kDevice>
CastRule active_rule(Op op) {
  return kRules<kDevice>[static_cast<std::size_t>(active_policy())][static_cast<std::size_t>(op)];
}

} // namespace ampcast::autocast
