#include <ampcast/install.h>

#include "autocast/install_kernels.h"
#include "scaler/schemas.h"

namespace ampcast {

void install() {
  autocast::install_kernels();
  scaler::register_ops();
}

} // namespace ampcast
