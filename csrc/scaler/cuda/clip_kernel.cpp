#include "common/nvtx.h"
#include "scaler/argument_checks.h"
#include "scaler/cuda/gradient_walk.h"
#include "scaler/kernels.h"

namespace ampcast::scaler::cuda {

void clip_(at::TensorList grads, const at::Tensor& norm, double max_norm) {
  AMPCAST_NVTX_RANGE("ampcast::clip_");
  check_arguments_of_clip(grads, norm, max_norm);
  const Factor factor{nullptr, norm.const_data_ptr<float>(), static_cast<float>(max_norm)};
  walk_gradients(grads, norm, {/*writes=*/true, Norm::kNone}, {factor, nullptr, nullptr});
}

} // namespace ampcast::scaler::cuda
