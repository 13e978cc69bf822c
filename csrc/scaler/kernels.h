#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

/// The kernels of the operators, a namespace a dispatch key. See <ampcast/ops.h> for what they do.
namespace ampcast::scaler {

/// Declares the kernels of one dispatch key.
#define AMPCAST_DECLARE_KERNELS()                                                                                    \
  void check_finite_(at::TensorList grads, at::Tensor& found_inf, const std::optional<at::Tensor>& inv_scale);       \
  void unscale_(at::TensorList grads, at::Tensor& found_inf, const at::Tensor& inv_scale);                           \
  void unscale_norm_(                                                                                                \
      at::TensorList grads, at::Tensor& found_inf, const at::Tensor& inv_scale, at::Tensor& norm, double norm_type); \
  void clip_(at::TensorList grads, const at::Tensor& norm, double max_norm);                                         \
  void copy_cast_(at::TensorList dst, at::TensorList src);                                                           \
  void update_scale_(                                                                                                \
      at::Tensor& scale, at::Tensor& growth_tracker, const at::Tensor& found_inf, double growth_factor,              \
      double backoff_factor, int64_t growth_interval);

namespace cpu {
AMPCAST_DECLARE_KERNELS()
} // namespace cpu

/// Without CUDA in the build these say so and raise.
namespace cuda {
AMPCAST_DECLARE_KERNELS()
} // namespace cuda

/// These check their arguments and do nothing else.
namespace meta {
AMPCAST_DECLARE_KERNELS()
} // namespace meta

#undef AMPCAST_DECLARE_KERNELS

/// What runs for empty lists, which have no device, and for a device without a kernel: the checks, and there an error.
namespace no_device {

void copy_cast_(at::TensorList dst, at::TensorList src);

} // namespace no_device

} // namespace ampcast::scaler
