#include "autocast/autocast_kernel.h"

#include <c10/util/Exception.h>

namespace ampcast::autocast {

void throw_banned(const char* op) {
  TORCH_CHECK(
      false, op,
      " must not be autocast on cuda: its gradient overflows float16 for confident wrong predictions. Feed the values"
      " before the sigmoid to binary_cross_entropy_with_logits (BCEWithLogitsLoss), or run this op on float32 inputs in"
      " a region with enabled=False.");
}

} // namespace ampcast::autocast
