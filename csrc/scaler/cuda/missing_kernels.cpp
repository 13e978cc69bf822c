// What a build without CUDA kernels registers for CUDA: errors that say how to get them.

#include "scaler/kernels.h"

#include <c10/util/Exception.h>

namespace ampcast::scaler::cuda {
namespace {

[[noreturn]] void raise_no_kernel(const char* op) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "ampcast::", op, ": this build of ampcast has no CUDA kernels, for ", AMPCAST_NO_CUDA_REASON,
      "; build it with -DAMPCAST_CUDA=ON, a CUDA build of torch and nvcc, or move the tensors to the CPU");
}

} // namespace

void check_finite_(
    at::TensorList /*grads*/,
    at::Tensor& /*found_inf*/,
    const std::optional<at::Tensor>& /*inv_scale*/) {
  raise_no_kernel("check_finite_");
}

void unscale_(at::TensorList /*grads*/, at::Tensor& /*found_inf*/, const at::Tensor& /*inv_scale*/) {
  raise_no_kernel("unscale_");
}

void unscale_norm_(
    at::TensorList /*grads*/,
    at::Tensor& /*found_inf*/,
    const at::Tensor& /*inv_scale*/,
    at::Tensor& /*norm*/,
    double /*norm_type*/) {
  raise_no_kernel("unscale_norm_");
}

void clip_(at::TensorList /*grads*/, const at::Tensor& /*norm*/, double /*max_norm*/) {
  raise_no_kernel("clip_");
}

void copy_cast_(at::TensorList /*dst*/, at::TensorList /*src*/) {
  raise_no_kernel("copy_cast_");
}

void update_scale_(
    at::Tensor& /*scale*/,
    at::Tensor& /*growth_tracker*/,
    const at::Tensor& /*found_inf*/,
    double /*growth_factor*/,
    double /*backoff_factor*/,
    int64_t /*growth_interval*/) {
  raise_no_kernel("update_scale_");
}

} // namespace ampcast::scaler::cuda
