#include "autocast/autocast_kernel.h"
#include "autocast/install_kernels.h"

namespace ampcast::autocast {

void register_cpu_kernels(torch::Library& library) {
#define AMPCAST_CAST_RULE(op, cpu, cuda) register_kernel<at::_ops::op, at::kCPU, Op::op, CastRule::cpu>(library);
#include "autocast/cast_lists.def"
}

} // namespace ampcast::autocast
