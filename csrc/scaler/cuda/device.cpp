#include "scaler/cuda/device.h"

#include <c10/cuda/CUDAException.h>

namespace ampcast::scaler::cuda {
namespace {

int multiprocessors_of(c10::DeviceIndex device) {
  int count = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

} // namespace

OnDevice::OnDevice(const at::Tensor& tensor)
    : guard_(tensor.device()),
      stream_(c10::cuda::getCurrentCUDAStream(tensor.device().index())),
      multiprocessors_(multiprocessors_of(tensor.device().index())) {}

} // namespace ampcast::scaler::cuda
