#include "autocast/install_kernels.h"

#include <c10/util/Exception.h>

#include <mutex>

namespace ampcast::autocast {

namespace {

struct SilentWarningHandler : c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

// Leaked on purpose: kernels must outlive threads that still run ops when the process exits.
torch::Library& leaked_library(c10::DispatchKey key) {
  return *new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
}

void register_quietly() {
  SilentWarningHandler silent;
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  register_cpu_kernels(leaked_library(c10::DispatchKey::AutocastCPU));
  register_cuda_kernels(leaked_library(c10::DispatchKey::AutocastCUDA));
}

} // namespace

void install_kernels() {
  static std::once_flag once;
  std::call_once(once, register_quietly);
}

} // namespace ampcast::autocast
