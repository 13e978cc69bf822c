#include "common/nvtx.h"
#include "scaler/argument_checks.h"
#include "scaler/cpu/gradient_walk.h"
#include "scaler/kernels.h"

namespace ampcast::scaler::cpu {

void check_finite_(at::TensorList grads, at::Tensor& found_inf, const std::optional<at::Tensor>& inv_scale) {
  AMPCAST_NVTX_RANGE("ampcast::check_finite_");
  check_arguments_of_check_finite(grads, found_inf, inv_scale);
  const float factor = inv_scale.has_value() ? *inv_scale->const_data_ptr<float>() : 1.0f;
  const auto kernel = factor == 1.0f ? &RealKernels::check : &RealKernels::check_product;
  if (walk_gradients(grads, {kernel, factor}).non_finite) {
    set_found_inf(found_inf);
  }
}

} // namespace ampcast::scaler::cpu
