#include "scaler/argument_checks.h"

#include "scaler/gradient_dtype.h"

#include <ATen/MemoryOverlap.h>
#include <c10/core/GradMode.h>

#include <cmath>

namespace ampcast::scaler {
namespace {

// An argument as messages name it: `found_inf`, or `grads[3]`.
struct Name {
  const char* op;
  const char* argument;
  int64_t index = -1;
};

std::ostream& operator<<(std::ostream& stream, const Name& name) {
  stream << "ampcast::" << name.op << ": `" << name.argument;
  if (name.index >= 0) {
    stream << '[' << name.index << ']';
  }
  return stream << '`';
}

void check_dense(const Name& name, const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.defined(), name, " must be a tensor, got an undefined one; leave it out of the call");
  TORCH_CHECK_TYPE(
      tensor.layout() == at::kStrided, name, " must be dense, got layout ", tensor.layout(),
      "; coalesce a sparse gradient and pass its `values()`");
}

// `reference` is the argument whose device the others must share: `found_inf` or `norm`.
void check_device(
    const Name& name,
    const at::Tensor& tensor,
    const at::Tensor& reference,
    const char* reference_name = "found_inf") {
  TORCH_CHECK(
      tensor.device() == reference.device(), name, " must be on the device of `", reference_name, "`, ",
      reference.device(), ", got ", tensor.device(), "; call the operator once a device, with a `", reference_name,
      "` on each");
}

void check_one_element(const Name& name, const at::Tensor& tensor, at::ScalarType dtype) {
  check_dense(name, tensor);
  TORCH_CHECK_TYPE(
      tensor.scalar_type() == dtype, name, " must be ", dtype, ", got ", tensor.scalar_type(), "; convert it first");
  TORCH_CHECK_VALUE(
      tensor.sym_numel() == 1, name, " must hold one element, got shape ", tensor.sym_sizes(),
      "; pass one of its elements");
}

void check_writable(const Name& name, const at::Tensor& tensor) {
  TORCH_CHECK(
      !(tensor.requires_grad() && tensor.is_leaf() && c10::GradMode::is_enabled()), name,
      " must not be a leaf that requires grad, for it is written in place; call the operator under torch.no_grad()");
}

void check_no_overlap(const Name& name, const at::Tensor& tensor) {
  TORCH_CHECK(
      at::has_internal_overlap(tensor) != at::MemOverlap::Yes, name,
      " must not overlap itself in memory, for it is written in place, got shape ", tensor.sym_sizes(), " and strides ",
      tensor.sym_strides(), "; pass the tensor it was expanded from, or a clone");
}

void check_dtype(const Name& name, const at::Tensor& tensor) {
  TORCH_CHECK_TYPE(
      gradient_dtype(tensor.scalar_type()).has_value(), name,
      " must be float32, float64, float16, bfloat16, complex64 or complex128, got ", tensor.scalar_type(),
      "; convert it first");
}

void check_gradient(
    const Name& name,
    const at::Tensor& grad,
    const at::Tensor& reference,
    const char* reference_name = "found_inf") {
  check_dense(name, grad);
  check_dtype(name, grad);
  check_device(name, grad, reference, reference_name);
}

void check_written(const Name& name, const at::Tensor& tensor) {
  check_writable(name, tensor);
  check_no_overlap(name, tensor);
}

void check_cast(const Name& name, const at::Tensor& tensor, const at::Tensor& first) {
  check_dense(name, tensor);
  check_dtype(name, tensor);
  TORCH_CHECK(
      tensor.device() == first.device(), name, " must be on the device of `dst[0]`, ", first.device(), ", got ",
      tensor.device(), "; call the operator once a device, with sources that are there");
}

// Whether `src`, as messages name it, can be converted to the dtype of `dst`, element by element.
void check_pair(const Name& name, const at::Tensor& dst, const at::Tensor& src) {
  TORCH_CHECK_TYPE(
      dst.is_complex() == src.is_complex(), name, " must be ", dst.is_complex() ? "complex" : "real",
      " as its destination is, ", dst.scalar_type(), ", got ", src.scalar_type(),
      "; take `torch.real` of a complex source, or convert a real one to complex first");
  TORCH_CHECK_VALUE(
      dst.sym_sizes() == src.sym_sizes(), name, " must have the shape of its destination, ", dst.sym_sizes(), ", got ",
      src.sym_sizes(), "; expand it first");
}

void check_found_inf(const Name& name, const at::Tensor& found_inf) {
  check_one_element(name, found_inf, at::kFloat);
  check_writable(name, found_inf);
}

void check_inv_scale(const Name& name, const at::Tensor& inv_scale, const at::Tensor& found_inf) {
  check_one_element(name, inv_scale, at::kFloat);
  check_device(name, inv_scale, found_inf);
}

} // namespace

bool is_fused_norm(double norm_type) {
  return norm_type == 2 || (std::isinf(norm_type) && norm_type > 0);
}

void check_arguments_of_check_finite(
    at::TensorList grads,
    const at::Tensor& found_inf,
    const std::optional<at::Tensor>& inv_scale) {
  check_found_inf({"check_finite_", "found_inf"}, found_inf);
  if (inv_scale.has_value()) {
    check_inv_scale({"check_finite_", "inv_scale"}, *inv_scale, found_inf);
  }
  for (size_t i = 0; i < grads.size(); ++i) {
    check_gradient({"check_finite_", "grads", static_cast<int64_t>(i)}, grads[i], found_inf);
  }
}

void check_gradients_are_writable(const char* op, at::TensorList grads) {
  for (size_t i = 0; i < grads.size(); ++i) {
    check_written({op, "grads", static_cast<int64_t>(i)}, grads[i]);
  }
}

void check_arguments_of_unscale(
    at::TensorList grads,
    const at::Tensor& found_inf,
    const at::Tensor& inv_scale,
    const char* op) {
  check_found_inf({op, "found_inf"}, found_inf);
  check_inv_scale({op, "inv_scale"}, inv_scale, found_inf);
  for (size_t i = 0; i < grads.size(); ++i) {
    const Name name{op, "grads", static_cast<int64_t>(i)};
    check_gradient(name, grads[i], found_inf);
    check_written(name, grads[i]);
  }
}

void check_arguments_of_unscale_norm(
    at::TensorList grads,
    const at::Tensor& found_inf,
    const at::Tensor& inv_scale,
    const at::Tensor& norm,
    double norm_type) {
  const Name name{"unscale_norm_", "norm"};
  TORCH_CHECK_VALUE(
      is_fused_norm(norm_type), "ampcast::unscale_norm_: `norm_type` must be 2 or inf, got ", norm_type,
      "; for other norms call unscale_ and torch.nn.utils.clip_grad_norm_");
  check_one_element(name, norm, at::kFloat);
  check_arguments_of_unscale(grads, found_inf, inv_scale, name.op);
  check_device(name, norm, found_inf);
  check_writable(name, norm);
}

void check_arguments_of_clip(at::TensorList grads, const at::Tensor& norm, double max_norm) {
  TORCH_CHECK_VALUE(max_norm >= 0, "ampcast::clip_: `max_norm` must be a number from 0 on, got ", max_norm);
  check_one_element({"clip_", "norm"}, norm, at::kFloat);
  for (size_t i = 0; i < grads.size(); ++i) {
    const Name name{"clip_", "grads", static_cast<int64_t>(i)};
    check_gradient(name, grads[i], norm, "norm");
    check_written(name, grads[i]);
  }
}

void check_arguments_of_copy_cast(at::TensorList dst, at::TensorList src) {
  TORCH_CHECK_VALUE(
      dst.size() == src.size(), "ampcast::copy_cast_: `src` must have as many tensors as `dst`, ", dst.size(), ", got ",
      src.size(), "; pass one source for each destination");
  for (size_t i = 0; i < dst.size(); ++i) {
    const Name dst_name{"copy_cast_", "dst", static_cast<int64_t>(i)};
    const Name src_name{"copy_cast_", "src", static_cast<int64_t>(i)};
    check_cast(dst_name, dst[i], dst[0]);
    check_cast(src_name, src[i], dst[0]);
    check_pair(src_name, dst[i], src[i]);
    check_written(dst_name, dst[i]);
  }
}

void check_arguments_of_update_scale(
    const at::Tensor& scale,
    const at::Tensor& growth_tracker,
    const at::Tensor& found_inf) {
  check_one_element({"update_scale_", "found_inf"}, found_inf, at::kFloat);
  check_one_element({"update_scale_", "scale"}, scale, at::kFloat);
  check_device({"update_scale_", "scale"}, scale, found_inf);
  check_writable({"update_scale_", "scale"}, scale);
  check_one_element({"update_scale_", "growth_tracker"}, growth_tracker, at::kInt);
  check_device({"update_scale_", "growth_tracker"}, growth_tracker, found_inf);
}

} // namespace ampcast::scaler
