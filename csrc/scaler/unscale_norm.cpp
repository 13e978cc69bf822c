#include <ampcast/ops.h>

#include "scaler/schemas.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace ampcast {

void unscale_norm_(
    at::TensorList grads,
    at::Tensor& found_inf,
    const at::Tensor& inv_scale,
    at::Tensor& norm,
    double norm_type) {
  scaler::register_ops();
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ampcast::unscale_norm_", "")
                             .typed<void(at::TensorList, at::Tensor&, const at::Tensor&, at::Tensor&, double)>();
  op.call(grads, found_inf, inv_scale, norm, norm_type);
}

} // namespace ampcast
