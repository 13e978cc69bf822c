#include "scaler/gradients.h"

#include "scaler/argument_checks.h"
#include "scaler/gradient_dtype.h"
#include "scaler/schemas.h"

#include <ampcast/ops.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_conj.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace ampcast::scaler {

namespace {

#ifdef AMPCAST_WITH_CUDA
constexpr bool kHasCuda = true;
#else
constexpr bool kHasCuda = false; // what is registered for CUDA then is an error
#endif

const c10::OperatorHandle& unscale_operator() {
  static const c10::OperatorHandle handle = [] {
    register_ops();
    return c10::Dispatcher::singleton().findSchemaOrThrow("ampcast::unscale_", "");
  }();
  return handle;
}

/// Torch's error for a dtype it has no kernel for, raised before any gradient is written.
void check_dtype(const at::Tensor& values) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      gradient_dtype(values.scalar_type()).has_value(), "\"_amp_foreach_non_finite_check_and_unscale_",
      values.device().type(), "\" not implemented for '", values.scalar_type(), "'");
}

/// The same memory without lazy conjugation or negation, which commute with a real factor and with the check.
at::Tensor without_lazy_bits(const at::Tensor& values) {
  const at::Tensor resolved = values.is_conj() ? at::_conj(values) : values;
  return resolved.is_neg() ? at::_neg_view(resolved) : resolved;
}

/// Whether what holds for one holds for the other: backend, layout, subclass, lazy bits, dtype and device.
bool are_alike(const at::Tensor& a, const at::Tensor& b) {
  return a.key_set() == b.key_set() && a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

at::Tensor on_device(const at::Tensor& tensor, at::Device device, bool copy) {
  return tensor.to(tensor.options().device(device), /*non_blocking=*/true, copy);
}

/// The norm of the norms of several devices, on the first of them; without any, torch's norm of nothing.
at::Tensor combine_norms(std::vector<at::Tensor>& norms, double norm_type) {
  if (norms.empty()) {
    return at::zeros({});
  }
  if (norms.size() == 1) {
    return norms.front();
  }
  for (at::Tensor& norm : norms) {
    norm = on_device(norm, norms.front().device(), /*copy=*/false);
  }
  return at::linalg_vector_norm(at::stack(norms), norm_type);
}

} // namespace

bool has_kernels(const at::Tensor& tensor) {
  const c10::DispatchKeySet keys = tensor.key_set();
  return tensor.layout() == at::kStrided && !keys.has(c10::DispatchKey::Python) && (kHasCuda || !tensor.is_cuda()) &&
      unscale_operator().hasKernelForDispatchKey(c10::highestPriorityBackendTypeId(keys));
}

void Gradients::add(const at::Tensor& parameter) {
  const at::Tensor& gradient = parameter.grad();
  if (!gradient.defined()) {
    return;
  }
  have_float16_ = have_float16_ || gradient.scalar_type() == at::kHalf;
  if (gradient.is_sparse()) {
    have_sparse_ = true;
    add_sparse(parameter);
  } else {
    add_values(gradient);
  }
}

void Gradients::add_sparse(const at::Tensor& parameter) {
  const at::NoGradGuard no_grad;
  const at::Tensor values = parameter.grad()._values();
  if (values.scalar_type() == at::kHalf && has_kernels(values)) {
    parameters_with_float16_sparse_gradient_.push_back(parameter);
  } else {
    add_values(values);
  }
}

void Gradients::add_values(const at::Tensor& values) {
  // Nearly always, so this keeps the cost of a gradient to a few loads.
  if (!groups_.empty() && are_alike(values, groups_[latest_].values.back())) {
    groups_[latest_].values.push_back(values);
    return;
  }
  have_kernels_ = have_kernels_ && has_kernels(values);
  if (have_kernels_) {
    check_dtype(values);
    group_of(values.device()).values.push_back(without_lazy_bits(values));
  }
}

Gradients::DeviceGroup& Gradients::group_of(at::Device device) {
  const auto group =
      std::find_if(groups_.begin(), groups_.end(), [&](const DeviceGroup& g) { return g.device == device; });
  latest_ = static_cast<size_t>(group - groups_.begin());
  return group != groups_.end() ? *group : groups_.emplace_back(DeviceGroup{device, {}});
}

void Gradients::coalesce_float16() {
  for (const at::Tensor& parameter : parameters_with_float16_sparse_gradient_) {
    at::Tensor coalesced = parameter.grad().coalesce();
    add_values(coalesced._values());
    parameter.mutable_grad() = std::move(coalesced);
  }
  parameters_with_float16_sparse_gradient_.clear();
}

template <typename Operation>
std::vector<at::Tensor> Gradients::for_each_device(const at::Tensor& found_inf, Operation operation) {
  const at::NoGradGuard no_grad;
  coalesce_float16();
  std::vector<at::Tensor> found_inf_per_device;
  for (const DeviceGroup& group : groups_) {
    at::Tensor found = on_device(found_inf, group.device, /*copy=*/true);
    operation(group, found);
    found_inf_per_device.push_back(std::move(found));
  }
  return found_inf_per_device;
}

void Gradients::check_can_unscale(bool allow_float16) const {
  TORCH_CHECK_VALUE(allow_float16 || !have_float16_, "Attempting to unscale FP16 gradients.");
  if (groups_.size() < 2) {
    return; // the operator checks all it is given before it writes
  }
  for (const DeviceGroup& group : groups_) {
    check_gradients_are_writable("unscale_", group.values);
  }
}

std::vector<at::Tensor> Gradients::unscale_(
    const at::Tensor& inv_scale,
    const at::Tensor& found_inf,
    bool allow_float16) {
  check_can_unscale(allow_float16);
  return for_each_device(found_inf, [&](const DeviceGroup& group, at::Tensor& found) {
    ampcast::unscale_(group.values, found, on_device(inv_scale, group.device, /*copy=*/false));
  });
}

bool Gradients::can_clip(double norm_type) const {
  return !have_sparse_ && is_fused_norm(norm_type);
}

Gradients::Clipped Gradients::unscale_and_clip_(
    const at::Tensor& inv_scale,
    const at::Tensor& found_inf,
    bool allow_float16,
    const ClipOptions& options) {
  check_can_unscale(allow_float16);
  std::vector<at::Tensor> norms;
  std::vector<at::Tensor> found = for_each_device(found_inf, [&](const DeviceGroup& group, at::Tensor& group_found) {
    at::Tensor& norm = norms.emplace_back(at::empty({}, group_found.options()));
    ampcast::unscale_norm_(
        group.values, group_found, on_device(inv_scale, group.device, /*copy=*/false), norm, options.norm_type);
  });
  at::Tensor norm = combine_norms(norms, options.norm_type);
  if (!options.error_if_nonfinite || std::isfinite(norm.item<float>())) {
    for (const DeviceGroup& group : groups_) {
      clip_(group.values, on_device(norm, group.device, /*copy=*/false), options.max_norm);
    }
  }
  return {std::move(found), std::move(norm)};
}

std::vector<at::Tensor> Gradients::check_finite(const at::Tensor& inv_scale, const at::Tensor& found_inf) {
  return for_each_device(found_inf, [&](const DeviceGroup& group, at::Tensor& found) {
    ampcast::check_finite_(group.values, found, on_device(inv_scale, group.device, /*copy=*/false));
  });
}

at::Tensor inverse_of_scale(const at::Tensor& scale) {
  if (scale.is_mps()) {
    return scale.reciprocal(); // no double there
  }
  return scale.to(at::kDouble).reciprocal().to(at::kFloat);
}

at::Tensor combine_found_inf(at::TensorList found_inf, at::Device device) {
  TORCH_CHECK(!found_inf.empty(), "No inf checks were recorded prior to update.");
  at::Tensor combined = on_device(found_inf[0], device, /*copy=*/false);
  for (const at::Tensor& found : found_inf.slice(1)) {
    combined = at::maximum(combined, on_device(found, device, /*copy=*/false));
  }
  return combined;
}

} // namespace ampcast::scaler
