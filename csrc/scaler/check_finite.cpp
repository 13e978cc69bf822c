#include <ampcast/ops.h>

#include "scaler/schemas.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace ampcast {

void check_finite_(at::TensorList grads, at::Tensor& found_inf, const std::optional<at::Tensor>& inv_scale) {
  scaler::register_ops();
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ampcast::check_finite_", "")
                             .typed<void(at::TensorList, at::Tensor&, const std::optional<at::Tensor>&)>();
  op.call(grads, found_inf, inv_scale);
}

} // namespace ampcast
