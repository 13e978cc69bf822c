#include "scaler/cuda/launches.h"

namespace ampcast::scaler::cuda {
namespace {

__global__ void update_scale_kernel(float* scale, int32_t* growth_tracker, const float* found_inf, ScaleRule rule) {
  const ScaleState next = next_scale({*scale, *growth_tracker}, *found_inf, rule);
  *scale = next.scale;
  *growth_tracker = next.growth_tracker;
}

} // namespace

cudaError_t launch_update_scale(
    float* scale,
    int32_t* growth_tracker,
    const float* found_inf,
    const ScaleRule& rule,
    cudaStream_t stream) {
  update_scale_kernel<<<1, 1, 0, stream>>>(scale, growth_tracker, found_inf, rule);
  return cudaGetLastError();
}

} // namespace ampcast::scaler::cuda
