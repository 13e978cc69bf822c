#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

/// What the operators demand of their arguments, the same on every device. Each function throws at the first rule broken,
/// naming the operator, the argument, the rule, what was given and what to do; kernels call them before they write.
namespace ampcast::scaler {

/// For `check_finite_`: grads are only read, so they may overlap themselves and may require grad.
void check_arguments_of_check_finite(
    at::TensorList grads,
    const at::Tensor& found_inf,
    const std::optional<at::Tensor>& inv_scale);

/// For `unscale_`, or an operator that messages name `op` and that demands the same of these.
void check_arguments_of_unscale(
    at::TensorList grads,
    const at::Tensor& found_inf,
    const at::Tensor& inv_scale,
    const char* op = "unscale_");

/// Whether `unscale_norm_` takes this norm: 2 or infinity.
bool is_fused_norm(double norm_type);

/// For `unscale_norm_`.
void check_arguments_of_unscale_norm(
    at::TensorList grads,
    const at::Tensor& found_inf,
    const at::Tensor& inv_scale,
    const at::Tensor& norm,
    double norm_type);

/// For `clip_`.
void check_arguments_of_clip(at::TensorList grads, const at::Tensor& norm, double max_norm);

/// That each of `grads` can be written in place: it neither overlaps itself nor is a leaf that requires grad in grad mode.
void check_gradients_are_writable(const char* op, at::TensorList grads);

/// For `copy_cast_`: tensors of `src` may overlap themselves and may require grad.
void check_arguments_of_copy_cast(at::TensorList dst, at::TensorList src);

/// For `update_scale_`.
void check_arguments_of_update_scale(
    const at::Tensor& scale,
    const at::Tensor& growth_tracker,
    const at::Tensor& found_inf);

} // namespace ampcast::scaler
