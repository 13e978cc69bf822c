#include <ampcast/ops.h>

#include "scaler/schemas.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace ampcast {

void clip_(at::TensorList grads, const at::Tensor& norm, double max_norm) {
  scaler::register_ops();
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ampcast::clip_", "")
                             .typed<void(at::TensorList, const at::Tensor&, double)>();
  op.call(grads, norm, max_norm);
}

} // namespace ampcast
