#include "common/nvtx.h"
#include "scaler/argument_checks.h"
#include "scaler/kernels.h"
#include "scaler/scale_rule.h"

namespace ampcast::scaler::cpu {

void update_scale_(
    at::Tensor& scale,
    at::Tensor& growth_tracker,
    const at::Tensor& found_inf,
    double growth_factor,
    double backoff_factor,
    int64_t growth_interval) {
  AMPCAST_NVTX_RANGE("ampcast::update_scale_");
  check_arguments_of_update_scale(scale, growth_tracker, found_inf);
  float& scale_value = *scale.mutable_data_ptr<float>();
  int32_t& tracker_value = *growth_tracker.mutable_data_ptr<int32_t>();
  const ScaleState next = next_scale(
      {scale_value, tracker_value}, *found_inf.const_data_ptr<float>(),
      {growth_factor, backoff_factor, growth_interval});
  scale_value = next.scale;
  tracker_value = next.growth_tracker;
}

} // namespace ampcast::scaler::cpu
