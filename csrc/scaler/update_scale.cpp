#include <ampcast/ops.h>

#include "scaler/schemas.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace ampcast {

void update_scale_(
    at::Tensor& scale,
    at::Tensor& growth_tracker,
    const at::Tensor& found_inf,
    double growth_factor,
    double backoff_factor,
    int64_t growth_interval) {
  scaler::register_ops();
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ampcast::update_scale_", "")
                             .typed<void(at::Tensor&, at::Tensor&, const at::Tensor&, double, double, int64_t)>();
  op.call(scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval);
}

} // namespace ampcast
