#include <ampcast/ops.h>

#include "scaler/schemas.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace ampcast {

void unscale_(at::TensorList grads, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  scaler::register_ops();
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ampcast::unscale_", "")
                             .typed<void(at::TensorList, at::Tensor&, const at::Tensor&)>();
  op.call(grads, found_inf, inv_scale);
}

} // namespace ampcast
