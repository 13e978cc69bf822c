#include "common/nvtx.h"
#include "scaler/argument_checks.h"
#include "scaler/clip_rule.h"
#include "scaler/cpu/gradient_walk.h"
#include "scaler/kernels.h"

namespace ampcast::scaler::cpu {

void clip_(at::TensorList grads, const at::Tensor& norm, double max_norm) {
  AMPCAST_NVTX_RANGE("ampcast::clip_");
  check_arguments_of_clip(grads, norm, max_norm);
  const float coefficient = clip_coefficient(*norm.const_data_ptr<float>(), static_cast<float>(max_norm));
  if (coefficient != 1.0f) {
    walk_gradients(grads, {&RealKernels::unscale, coefficient});
  }
}

} // namespace ampcast::scaler::cpu
