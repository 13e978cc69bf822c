#pragma once

#include "scaler/cpu/capability/gradient_kernels.h"

#include <ATen/core/Tensor.h>

namespace ampcast::scaler::cpu {

/// Runs `kernel` over every element of `grads` in one parallel pass and sets `found_inf` to 1 if any call returns true.
///
/// The pass is over one index space of all the tensors' elements, so that its cost does not depend on how they are cut into
/// tensors; it is serial for few elements. A tensor without gaps is walked as flat memory whatever the order of its
/// dimensions, one with gaps in runs of constant stride; elements that an expanded tensor repeats are visited once.
/// The arguments have been checked.
void walk_gradients(at::TensorList grads, GradientKernel RealKernels::*kernel, float inv_scale, float& found_inf);

} // namespace ampcast::scaler::cpu
