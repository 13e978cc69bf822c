#pragma once

#include <ampcast/export.h>

#include <c10/core/DeviceType.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace ampcast {

/// What an autocast region does to the arguments of an op before the op runs.
///
/// Only floating-point tensors on the region's device that are not float64 are cast.
enum class CastRule : uint8_t {
  unlisted, ///< The op has no autocast kernel: it runs on its arguments as they are, the ops inside it are autocast.
  lower, ///< Arguments are cast to the region's dtype.
  fp32, ///< Arguments are cast to float32.
  fp32_dtype, ///< The op's own dtype argument becomes float32, if it is unset and the first argument is castable.
  promote, ///< Arguments are cast to float32 if any of them is float32, else to the region's dtype.
  banned, ///< The op raises: no cast makes it safe.
};

/// The rule's name: the enumerator, as users write it.
AMPCAST_API std::string_view to_string(CastRule rule);

/// One line of a device's cast list.
struct CastListEntry {
  std::string_view op; ///< Qualified name with overload, such as "aten::conv2d.padding"; valid for the process's life.
  CastRule rule;
};

/// The ops that a region casts on `device` under the policy "default", sorted by name; the running torch's list.
/// \throws c10::ValueError if `device` has no list: there is one for CPU and one for CUDA.
AMPCAST_API std::vector<CastListEntry> cast_list(c10::DeviceType device);

} // namespace ampcast
