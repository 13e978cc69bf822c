#pragma once

#include <ampcast/export.h>

#include <cstdint>

/// The rules for what a user may set on a scaler, one for both languages. Each returns its argument or throws
/// c10::ValueError with `name` in the message.
namespace ampcast::scaler {

/// A scale is finite and above 0 once rounded to float32.
AMPCAST_API double checked_scale(double scale, const char* name);

/// A factor is finite and above 0.
AMPCAST_API double checked_factor(double factor, const char* name);

/// Growth needs at least one step.
AMPCAST_API int64_t checked_growth_interval(int64_t growth_interval);

/// A norm to clip to is a number from 0 on; infinity clips nothing.
AMPCAST_API double checked_max_norm(double max_norm);

/// A tracker counts steps from 0 in 32 bits.
AMPCAST_API int64_t checked_growth_tracker(int64_t growth_tracker);

} // namespace ampcast::scaler
