#pragma once

#include <torch/library.h>

namespace ampcast::autocast {

/// Puts ampcast's kernels over torch's at the autocast keys of CPU and CUDA, once a process and without torch's
/// warning.
void install_kernels();

/// Registers one device's kernels with `library`, which is an IMPL library of namespace aten for that device's autocast
/// key.
void register_cpu_kernels(torch::Library& library);
void register_cuda_kernels(torch::Library& library);

} // namespace ampcast::autocast
