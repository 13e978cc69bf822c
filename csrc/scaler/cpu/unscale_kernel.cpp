#include "common/nvtx.h"
#include "scaler/argument_checks.h"
#include "scaler/cpu/gradient_walk.h"
#include "scaler/kernels.h"

namespace ampcast::scaler::cpu {

void unscale_(at::TensorList grads, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  AMPCAST_NVTX_RANGE("ampcast::unscale_");
  check_arguments_of_unscale(grads, found_inf, inv_scale);
  const float factor = *inv_scale.const_data_ptr<float>();
  const auto kernel = factor == 1.0f ? &RealKernels::check : &RealKernels::unscale;
  if (walk_gradients(grads, {kernel, factor}).non_finite) {
    set_found_inf(found_inf);
  }
}

} // namespace ampcast::scaler::cpu
