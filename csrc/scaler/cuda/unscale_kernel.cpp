#include "common/nvtx.h"
#include "scaler/argument_checks.h"
#include "scaler/cuda/gradient_walk.h"
#include "scaler/kernels.h"

namespace ampcast::scaler::cuda {

void unscale_(at::TensorList grads, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  AMPCAST_NVTX_RANGE("ampcast::unscale_");
  check_arguments_of_unscale(grads, found_inf, inv_scale);
  const Factor factor{inv_scale.const_data_ptr<float>(), nullptr, 0};
  walk_gradients(
      grads, found_inf, {/*writes=*/true, Norm::kNone}, {factor, found_inf.mutable_data_ptr<float>(), nullptr});
}

} // namespace ampcast::scaler::cuda
