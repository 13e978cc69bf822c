#include "scaler/scaler_options.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <limits>

namespace ampcast::scaler {

double checked_scale(double scale, const char* name) {
  const float stored = static_cast<float>(scale);
  TORCH_CHECK_VALUE(
      std::isfinite(stored) && stored > 0, "GradScaler: `", name, "` must be finite and above 0 in float32, got ",
      scale, ".");
  return scale;
}

double checked_factor(double factor, const char* name) {
  TORCH_CHECK_VALUE(
      std::isfinite(factor) && factor > 0, "GradScaler: `", name, "` must be finite and above 0, got ", factor, ".");
  return factor;
}

int64_t checked_growth_interval(int64_t growth_interval) {
  TORCH_CHECK_VALUE(
      growth_interval >= 1, "GradScaler: `growth_interval` must be at least 1, got ", growth_interval, ".");
  return growth_interval;
}

double checked_max_norm(double max_norm) {
  TORCH_CHECK_VALUE(max_norm >= 0, "GradScaler: `max_norm` must be a number from 0 on, got ", max_norm, ".");
  return max_norm;
}

int64_t checked_growth_tracker(int64_t growth_tracker) {
  TORCH_CHECK_VALUE(
      growth_tracker >= 0 && growth_tracker <= std::numeric_limits<int32_t>::max(),
      "GradScaler: `_growth_tracker` must count steps from 0 in 32 bits, got ", growth_tracker, ".");
  return growth_tracker;
}

} // namespace ampcast::scaler
