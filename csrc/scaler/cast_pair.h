#pragma once

#include <ATen/core/Tensor.h>

/// What kernels of `copy_cast_` ask of a destination and its source, on every device.
namespace ampcast::scaler {

/// Whether the tensors hold their elements in the same order of memory, without gaps.
inline bool is_flat(const at::Tensor& dst, const at::Tensor& src) {
  return (dst.is_contiguous() && src.is_contiguous()) ||
      (dst.strides() == src.strides() && dst.is_non_overlapping_and_dense());
}

/// Lets autograd refuse a backward pass that saved a value of `tensors` that has been written over. An inference tensor has no
/// version to count.
inline void bump_versions(at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_inference()) {
      tensor.unsafeGetTensorImpl()->bump_version();
    }
  }
}

} // namespace ampcast::scaler
