#pragma once

#include "common/host_device.h"

#include <cmath>
#include <cstdint>

namespace ampcast::scaler {

/// What a scaler carries from step to step.
struct ScaleState {
  float scale;
  int32_t growth_tracker; // good steps since the scale last changed
};

/// How the scale moves.
struct ScaleRule {
  double growth_factor;
  double backoff_factor;
  int64_t growth_interval;
};

/// The state after a step: torch's rule (`_amp_update_scale_`), bit for bit.
///
/// A bad step (`found_inf` not 0; NaN counts) backs off. The good step that makes the tracker *equal* to the interval grows
/// the scale, unless the result is not finite; an interval lowered below the tracker therefore never fires until a bad step.
/// Products are taken in double and rounded to float32 once.
AMPCAST_HOST_DEVICE inline ScaleState next_scale(ScaleState state, float found_inf, const ScaleRule& rule) {
  if (found_inf != 0) {
    return {static_cast<float>(state.scale * rule.backoff_factor), 0};
  }
  const int32_t good_steps = state.growth_tracker + 1;
  if (good_steps != rule.growth_interval) {
    return {state.scale, good_steps};
  }
  const float grown = static_cast<float>(state.scale * rule.growth_factor);
  return {std::isfinite(grown) ? grown : state.scale, 0};
}

} // namespace ampcast::scaler
