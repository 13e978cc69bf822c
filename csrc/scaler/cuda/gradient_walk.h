#pragma once

#include "scaler/cuda/launches.h"

#include <ATen/core/Tensor.h>

namespace ampcast::scaler::cuda {

/// Runs `pass` over every number of `grads`, with one launch a dtype for as many tensors as a table holds, on the current
/// stream of the device of `on`. Waits for nothing.
///
/// Tensors without gaps are visited where they are; others in a packed copy, which is copied back if `work.writes`. With
/// `work.norm`, kTwo or kInf, `norm` on that device is set to the norm: partial norms are added in an order that depends on
/// nothing but the list and the device's number of multiprocessors. The arguments have been checked.
void walk_gradients(
    at::TensorList grads,
    const at::Tensor& on,
    GradientWork work,
    GradientPass pass,
    float* norm = nullptr);

} // namespace ampcast::scaler::cuda
