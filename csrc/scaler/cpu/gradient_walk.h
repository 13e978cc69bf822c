#pragma once

#include "scaler/cpu/capability/gradient_kernels.h"

#include <ATen/core/Tensor.h>

namespace ampcast::scaler::cpu {

enum class NormType : uint8_t { kNone, kTwo, kInf };

/// What is done to every element of a list of gradients.
struct Operation {
  GradientKernel RealKernels::*kernel;
  float factor; ///< The kernel's `inv_scale`.
  NormType norm = NormType::kNone; ///< The norm to take of what the kernel left.
};

struct Findings {
  bool non_finite; ///< Whether the kernel found any element to be Inf or NaN.
  double norm; ///< 0 if none was asked for.
};

/// Runs `operation` over every element of `grads` in one parallel pass.
///
/// The pass is over one index space of all the tensors' elements, so that its cost does not depend on how they are cut into
/// tensors; it is serial for few elements. A tensor without gaps is walked as flat memory whatever the order of its
/// dimensions, one with gaps in runs of constant stride; elements that an expanded tensor repeats are visited once.
/// The norm has the same bits for any number of threads. The arguments have been checked.
Findings walk_gradients(at::TensorList grads, const Operation& operation);

/// Sets `found_inf` to 1; safe while other threads do the same.
void set_found_inf(const at::Tensor& found_inf);

} // namespace ampcast::scaler::cpu
