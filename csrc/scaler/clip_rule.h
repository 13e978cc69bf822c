#pragma once

#include "common/host_device.h"

namespace ampcast::scaler {

/// What gradients of this norm are multiplied by, 1 if they need no clipping: the arithmetic of
/// `torch.nn.utils.clip_grads_with_norm_` on a float32 norm, step by step. A norm that is NaN gives NaN, as there.
AMPCAST_HOST_DEVICE inline float clip_coefficient(float norm, float max_norm) {
  const float coefficient = 1.0f / (norm + 1e-6f) * max_norm;
  return coefficient > 1.0f ? 1.0f : coefficient;
}

} // namespace ampcast::scaler
