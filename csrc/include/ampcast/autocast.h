#pragma once

#include <ampcast/export.h>

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ampcast {

/// Constructor arguments of `AutocastGuard`, with torch.autocast's names and defaults.
struct AutocastOptions {
  /// The region's dtype: bfloat16 or float16. Unset: the device's default (bfloat16 on CPU, float16 on CUDA).
  /// float32 means full precision: the region casts nothing.
  std::optional<c10::ScalarType> dtype = std::nullopt;
  /// False turns autocast off for the device inside the region.
  bool enabled = true;
  /// Whether casts of float32 leaves that require grad are kept until the outermost region ends. Unset: as outside.
  std::optional<bool> cache_enabled = std::nullopt;
  /// The cast policy: "default" or "torch". In this version both are the running torch's rules.
  std::string policy = "default";
};

namespace detail {

/// What a region sets on its thread and gives back when it ends.
struct AutocastState {
  c10::DeviceType device;
  c10::ScalarType dtype;
  bool enabled;
  bool cache_enabled;
  bool slot_enabled;
  c10::ScalarType slot_dtype;
};

} // namespace detail

/// An autocast region: `torch.autocast` for C++.
///
///     {
///       ampcast::AutocastGuard autocast(at::kCPU, at::kBFloat16);
///       loss = loss_fn(model->forward(x), y);
///     }
///
/// Acts on the calling thread, and on the backward pass that is started inside the region. Regions nest, with torch's
/// own too; each restores the state it found. When the thread's outermost region ends, the cast cache is emptied (torch
/// has one cache for all threads). Never waits for a device.
class AMPCAST_API AutocastGuard {
 public:
  /// \param device type of the device whose ops are cast; any that torch autocasts.
  /// A dtype that the device does not autocast to, or CUDA where none is available, warns and disables the region, as
  /// torch does.
  /// \throws c10::Error if `device` has no autocast; c10::ValueError if the policy is unknown.
  explicit AutocastGuard(c10::DeviceType device, AutocastOptions options = {});
  AutocastGuard(c10::DeviceType device, c10::ScalarType dtype);
  ~AutocastGuard();

  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  detail::AutocastState saved_;
  uint64_t range_; ///< NVTX range; 0 when ranges are compiled out.
};

/// Turns autocast off for every device until the end of the scope, on the calling thread.
class AMPCAST_API AutocastDisabledGuard {
 public:
  AutocastDisabledGuard();

  AutocastDisabledGuard(const AutocastDisabledGuard&) = delete;
  AutocastDisabledGuard& operator=(const AutocastDisabledGuard&) = delete;

 private:
  c10::impl::ExcludeDispatchKeyGuard excluded_;
};

/// Whether the calling thread is in a region that casts ops of `device`; without `device`, of any device.
/// \throws c10::Error if `device` has no autocast.
AMPCAST_API bool is_enabled(std::optional<c10::DeviceType> device = std::nullopt);

/// The dtype that a region on `device` casts to on the calling thread.
/// \throws c10::Error if `device` has no autocast.
AMPCAST_API c10::ScalarType get_dtype(c10::DeviceType device);

/// The name of the cast policy in force on the calling thread; "torch" where no ampcast region is.
AMPCAST_API std::string_view get_policy();

} // namespace ampcast
