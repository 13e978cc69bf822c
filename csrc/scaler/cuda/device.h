#pragma once

#include <ATen/core/Tensor.h>

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace ampcast::scaler::cuda {

/// Makes a tensor's device the current one, and tells what launches there need.
class OnDevice {
 public:
  explicit OnDevice(const at::Tensor& tensor);

  cudaStream_t stream() const {
    return stream_;
  }
  int multiprocessors() const {
    return multiprocessors_;
  }

 private:
  c10::cuda::CUDAGuard guard_;
  cudaStream_t stream_;
  int multiprocessors_;
};

} // namespace ampcast::scaler::cuda
