#include "common/nvtx.h"
#include "scaler/argument_checks.h"
#include "scaler/cpu/gradient_walk.h"
#include "scaler/kernels.h"

namespace ampcast::scaler::cpu {

void unscale_norm_(
    at::TensorList grads,
    at::Tensor& found_inf,
    const at::Tensor& inv_scale,
    at::Tensor& norm,
    double norm_type) {
  AMPCAST_NVTX_RANGE("ampcast::unscale_norm_");
  check_arguments_of_unscale_norm(grads, found_inf, inv_scale, norm, norm_type);
  const float factor = *inv_scale.const_data_ptr<float>();
  const auto kernel = factor == 1.0f ? &RealKernels::check : &RealKernels::unscale;
  const Findings findings = walk_gradients(grads, {kernel, factor, norm_type == 2 ? NormType::kTwo : NormType::kInf});
  if (findings.non_finite) {
    set_found_inf(found_inf);
  }
  *norm.mutable_data_ptr<float>() = static_cast<float>(findings.norm);
}

} // namespace ampcast::scaler::cpu
