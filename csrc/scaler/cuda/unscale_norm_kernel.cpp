#include "common/nvtx.h"
#include "scaler/argument_checks.h"
#include "scaler/cuda/gradient_walk.h"
#include "scaler/kernels.h"

namespace ampcast::scaler::cuda {

void unscale_norm_(
    at::TensorList grads,
    at::Tensor& found_inf,
    const at::Tensor& inv_scale,
    at::Tensor& norm,
    double norm_type) {
  AMPCAST_NVTX_RANGE("ampcast::unscale_norm_");
  check_arguments_of_unscale_norm(grads, found_inf, inv_scale, norm, norm_type);
  const Factor factor{inv_scale.const_data_ptr<float>(), nullptr, 0};
  walk_gradients(
      grads, found_inf, {/*writes=*/true, norm_type == 2 ? Norm::kTwo : Norm::kInf},
      {factor, found_inf.mutable_data_ptr<float>(), nullptr}, norm.mutable_data_ptr<float>());
}

} // namespace ampcast::scaler::cuda
