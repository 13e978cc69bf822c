#pragma once

#include <cstdint>

namespace ampcast::scaler::cuda {

inline constexpr unsigned kThreads = 256;
inline constexpr unsigned kBlocksPerMultiprocessor = 3;

/// The block that runs on the device.
class DeviceBlock {
 public:
  /// \param shared one double a warp of the block, in shared memory
  __device__ explicit DeviceBlock(double* shared) : shared_(shared) {}

  __device__ uint32_t thread() const {
    return threadIdx.x;
  }
  __device__ uint32_t threads() const {
    return kThreads;
  }
  __device__ uint32_t index() const {
    return blockIdx.x;
  }
  __device__ uint32_t blocks() const {
    return gridDim.x;
  }
  __device__ double* shared() const {
    return shared_;
  }
  __device__ void sync() const {
    __syncthreads();
  }
  __device__ bool any(bool value) const {
    return __syncthreads_or(value) != 0;
  }
  __device__ double shuffle_down(double value, uint32_t offset) const {
    return __shfl_down_sync(0xffffffffu, value, offset);
  }
  /// Other blocks may store the same at the same time.
  __device__ void store(float* address, float value) const {
    *static_cast<volatile float*>(address) = value;
  }

 private:
  double* shared_;
};

} // namespace ampcast::scaler::cuda
