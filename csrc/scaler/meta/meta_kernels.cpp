#include "scaler/argument_checks.h"
#include "scaler/kernels.h"

namespace ampcast::scaler::meta {

void check_finite_(at::TensorList grads, at::Tensor& found_inf, const std::optional<at::Tensor>& inv_scale) {
  check_arguments_of_check_finite(grads, found_inf, inv_scale);
}

void unscale_(at::TensorList grads, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  check_arguments_of_unscale(grads, found_inf, inv_scale);
}

void unscale_norm_(
    at::TensorList grads,
    at::Tensor& found_inf,
    const at::Tensor& inv_scale,
    at::Tensor& norm,
    double norm_type) {
  check_arguments_of_unscale_norm(grads, found_inf, inv_scale, norm, norm_type);
}

void clip_(at::TensorList grads, const at::Tensor& norm, double max_norm) {
  check_arguments_of_clip(grads, norm, max_norm);
}

void copy_cast_(at::TensorList dst, at::TensorList src) {
  check_arguments_of_copy_cast(dst, src);
}

void update_scale_(
    at::Tensor& scale,
    at::Tensor& growth_tracker,
    const at::Tensor& found_inf,
    double /*growth_factor*/,
    double /*backoff_factor*/,
    int64_t /*growth_interval*/) {
  check_arguments_of_update_scale(scale, growth_tracker, found_inf);
}

} // namespace ampcast::scaler::meta

namespace ampcast::scaler::no_device {

void copy_cast_(at::TensorList dst, at::TensorList src) {
  check_arguments_of_copy_cast(dst, src);
  TORCH_CHECK_NOT_IMPLEMENTED(
      dst.empty(), "ampcast::copy_cast_: `dst[0]` must be on a device that has a kernel, got ", dst[0].device(),
      "; use torch._foreach_copy_ there");
}

} // namespace ampcast::scaler::no_device
