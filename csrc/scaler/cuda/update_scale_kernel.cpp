#include "common/nvtx.h"
#include "scaler/argument_checks.h"
#include "scaler/cuda/device.h"
#include "scaler/cuda/launches.h"
#include "scaler/kernels.h"

#include <c10/cuda/CUDAException.h>

namespace ampcast::scaler::cuda {

void update_scale_(
    at::Tensor& scale,
    at::Tensor& growth_tracker,
    const at::Tensor& found_inf,
    double growth_factor,
    double backoff_factor,
    int64_t growth_interval) {
  AMPCAST_NVTX_RANGE("ampcast::update_scale_");
  check_arguments_of_update_scale(scale, growth_tracker, found_inf);
  const OnDevice device(scale);
  C10_CUDA_CHECK(launch_update_scale(
      scale.mutable_data_ptr<float>(), growth_tracker.mutable_data_ptr<int32_t>(), found_inf.const_data_ptr<float>(),
      {growth_factor, backoff_factor, growth_interval}, device.stream()));
}

} // namespace ampcast::scaler::cuda
