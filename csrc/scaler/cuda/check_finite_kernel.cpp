#include "common/nvtx.h"
#include "scaler/argument_checks.h"
#include "scaler/cuda/gradient_walk.h"
#include "scaler/kernels.h"

namespace ampcast::scaler::cuda {

void check_finite_(at::TensorList grads, at::Tensor& found_inf, const std::optional<at::Tensor>& inv_scale) {
  AMPCAST_NVTX_RANGE("ampcast::check_finite_");
  check_arguments_of_check_finite(grads, found_inf, inv_scale);
  const Factor factor{inv_scale.has_value() ? inv_scale->const_data_ptr<float>() : nullptr, nullptr, 0};
  walk_gradients(
      grads, found_inf, {/*writes=*/false, Norm::kNone}, {factor, found_inf.mutable_data_ptr<float>(), nullptr});
}

} // namespace ampcast::scaler::cuda
