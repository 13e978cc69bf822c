#include <ampcast/ops.h>

#include "scaler/schemas.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace ampcast {

void copy_cast_(at::TensorList dst, at::TensorList src) {
  scaler::register_ops();
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ampcast::copy_cast_", "")
                             .typed<void(at::TensorList, at::TensorList)>();
  op.call(dst, src);
}

} // namespace ampcast
