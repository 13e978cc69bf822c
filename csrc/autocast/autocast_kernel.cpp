#include "autocast/autocast_kernel.h"

#include <c10/util/Exception.h>

namespace ampcast::autocast {

void throw_banned(const char* op) {
  TORCH_CHECK(
      active_policy() != PolicyId::torch,
      "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
      "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
      "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
      "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
      "safe to autocast.");
  TORCH_CHECK(
      false, op,
      " must not be autocast on cuda: its gradient overflows float16 for confident wrong predictions. Feed the values"
      " before the sigmoid to binary_cross_entropy_with_logits (BCEWithLogitsLoss), or run this op on float32 inputs in"
      " a region with enabled=False.");
}

} // namespace ampcast::autocast
