#pragma once

#include <ampcast/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

/// The operators on gradients and parameters, as C++ functions. Each calls the dispatcher operator `ampcast::NAME`, which
/// has CPU and Meta kernels; from Python they are `torch.ops.ampcast.NAME`.
///
/// Gradients are dense tensors of one device, in any strides, of dtype float32, float64, float16, bfloat16, complex64 or
/// complex128, mixed freely in one list. `found_inf` and `inv_scale` hold one float32 element on the gradients' device.
/// The operators return nothing, run on the calling thread and torch's intra-op threads, never wait for a device, and leave
/// everything unchanged when they throw. Those on gradients do not move the gradients' version counters (torch's do not
/// either).
namespace ampcast {

/// Sets `found_inf` to 1 if any element of `grads` would be Inf or NaN after `unscale_`; writes no gradient.
///
/// Tests the product `grad * inv_scale`, rounded to the gradient's dtype; without `inv_scale` the gradients as they are.
/// `found_inf` is never cleared.
/// \throws c10::Error if a gradient is not dense or not of a listed dtype, if the devices differ, if `found_inf` or
///   `inv_scale` is not one float32 element, or if `found_inf` is a leaf that requires grad while grad mode is on.
AMPCAST_API void check_finite_(
    at::TensorList grads,
    at::Tensor& found_inf,
    const std::optional<at::Tensor>& inv_scale = std::nullopt);

/// Multiplies `grads` by `inv_scale` in place and sets `found_inf` to 1 if any written element is Inf or NaN.
///
/// 16-bit gradients are multiplied in float32 and rounded once, as torch does; complex ones by their parts. Unlike
/// `torch._amp_foreach_non_finite_check_and_unscale_`, which tests before it multiplies, the result is tested, and nothing
/// is written when `inv_scale` is 1. `found_inf` is never cleared. Two entries of `grads` must not share memory.
/// \throws c10::Error as `check_finite_`, and if a gradient overlaps itself or is a leaf that requires grad while grad
///   mode is on.
AMPCAST_API void unscale_(at::TensorList grads, at::Tensor& found_inf, const at::Tensor& inv_scale);

/// `unscale_`, which in the same pass sets `norm`, one float32 element, to the norm of all written elements together.
///
/// `norm_type` is 2 or infinity. Squares are added in float64 in an order that depends on the list alone: the same input
/// gives the same bits for any number of threads, within 1 ulp of the exact norm, and finite gradients set no `found_inf`
/// whatever their norm (which is Inf beyond float32). With Inf or NaN among the gradients the norm is Inf or NaN.
/// \throws c10::Error as `unscale_`, and if `norm` is not one float32 element or a leaf that requires grad while grad
///   mode is on; c10::ValueError for another `norm_type`.
AMPCAST_API void unscale_norm_(
    at::TensorList grads,
    at::Tensor& found_inf,
    const at::Tensor& inv_scale,
    at::Tensor& norm,
    double norm_type = 2.0);

/// Multiplies `grads` by `max_norm / (norm + 1e-6)`, if that is below 1: clips gradients whose norm is `norm`.
///
/// The coefficient is taken in float32, as `torch.nn.utils.clip_grads_with_norm_` takes it; where it is 1 nothing is
/// read or written. A NaN norm makes all gradients NaN, as there. Two entries of `grads` must not share memory.
/// \param norm one float32 element on the gradients' device.
/// \throws c10::Error as `unscale_`; c10::ValueError if `max_norm` is negative or NaN.
AMPCAST_API void clip_(at::TensorList grads, const at::Tensor& norm, double max_norm);

/// Writes each tensor of `src` to its counterpart in `dst`, converted to the latter's dtype: the bits of `Tensor.copy_`, but
/// for the payload of a NaN.
///
/// For parameters and their master weights: all pairs in one pass, which autograd does not record. Each pair has one shape;
/// strides are free, and a source may be expanded. All tensors are dense and of one device, of dtype float32, float64,
/// float16 or bfloat16 in any mix, or complex64 and complex128 on both sides. A tensor of `dst` must not share memory with
/// others of either list. Unlike `unscale_`, this moves the version counter of every tensor of `dst` by one, so that a
/// backward pass that saved the old value raises.
/// \throws c10::Error if the lists differ in length, if a pair differs in shape or is complex on one side only, if a tensor is
///   not dense or not of a listed dtype, if the devices differ, or if a tensor of `dst` overlaps itself or is a leaf that
///   requires grad while grad mode is on.
AMPCAST_API void copy_cast_(at::TensorList dst, at::TensorList src);

/// Applies torch's scale rule to `scale` (one float32 element) and `growth_tracker` (one int32 element) in place.
///
/// If `found_inf` is not 0: `scale *= backoff_factor`, tracker 0. Otherwise the tracker advances; when it reaches
/// `growth_interval`, `scale *= growth_factor` unless the result is not finite, tracker 0. Products are taken in double and
/// rounded to float32: `torch._amp_update_scale_`, bit for bit.
/// \throws c10::Error if a tensor has another dtype, device or number of elements.
AMPCAST_API void update_scale_(
    at::Tensor& scale,
    at::Tensor& growth_tracker,
    const at::Tensor& found_inf,
    double growth_factor,
    double backoff_factor,
    int64_t growth_interval);

} // namespace ampcast
