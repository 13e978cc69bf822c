#include "autocast/cast_rules.h"

#include <ATen/Operators.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <string>

namespace ampcast {

namespace {

using autocast::kOps;
using OpNames = std::array<std::string, kOps>;

const OpNames& op_names() {
  static const OpNames names = {
#define AMPCAST_CAST_RULE(op, cpu, cuda) autocast::qualified_name<at::_ops::op>(),
#include "autocast/cast_lists.def"
  };
  return names;
}

const autocast::RuleTable& default_rules(c10::DeviceType device) {
  TORCH_CHECK_VALUE(
      device == c10::DeviceType::CPU || device == c10::DeviceType::CUDA,
      "cast_list: `device` must be cpu or cuda, the devices that have a cast list, got ",
      c10::DeviceTypeName(device, /*lower_case=*/true));
  constexpr auto kDefault = static_cast<std::size_t>(autocast::PolicyId::default_);
  return device == c10::DeviceType::CPU ? autocast::kRules<c10::DeviceType::CPU>[kDefault]
                                        : autocast::kRules<c10::DeviceType::CUDA>[kDefault];
}

} // namespace

std::string_view to_string(CastRule rule) {
  static constexpr std::array<std::string_view, 6> kNames = {"unlisted",   "lower",   "fp32",
                                                             "fp32_dtype", "promote", "banned"};
  return kNames.at(static_cast<std::size_t>(rule));
}

std::vector<CastListEntry> cast_list(c10::DeviceType device) {
  const autocast::RuleTable& rules = default_rules(device);
  std::vector<CastListEntry> entries;
  for (std::size_t op = 0; op < kOps; ++op) {
    if (rules[op] != CastRule::unlisted) {
      entries.push_back({op_names()[op], rules[op]});
    }
  }
  std::ranges::sort(entries, {}, &CastListEntry::op);
  return entries;
}

} // namespace ampcast
