#include "scaler/schemas.h"

#include "scaler/kernels.h"

#include <ATen/core/enum_tag.h>
#include <torch/library.h>

#include <mutex>

namespace ampcast::scaler {
namespace {

// Mutated arguments are not returned: an aliased return would keep torch.compile from functionalizing the operators.
constexpr const char* kSchemas[] = {
    "check_finite_(Tensor[] grads, Tensor(a!) found_inf, Tensor? inv_scale=None) -> ()",
    "unscale_(Tensor(a!)[] grads, Tensor(b!) found_inf, Tensor inv_scale) -> ()",
    "unscale_norm_(Tensor(a!)[] grads, Tensor(b!) found_inf, Tensor inv_scale, Tensor(c!) norm, "
    "float norm_type=2.0) -> ()",
    "clip_(Tensor(a!)[] grads, Tensor norm, float max_norm) -> ()",
    "copy_cast_(Tensor(a!)[] dst, Tensor[] src) -> ()",
    "update_scale_(Tensor(a!) scale, Tensor(b!) growth_tracker, Tensor found_inf, "
    "float growth_factor, float backoff_factor, int growth_interval) -> ()",
};

// Here the Meta kernels run, which check their arguments and find the tensor that is not dense.
constexpr c10::DispatchKey kNotDense[] = {
    c10::DispatchKey::MkldnnCPU,     c10::DispatchKey::SparseCPU,     c10::DispatchKey::SparseCsrCPU,
    c10::DispatchKey::SparseCUDA,    c10::DispatchKey::SparseCsrCUDA, c10::DispatchKey::SparseMeta,
    c10::DispatchKey::SparseCsrMeta,
};

torch::Library& leaked_library(torch::Library::Kind kind, std::optional<c10::DispatchKey> key = std::nullopt) {
  return *new torch::Library(kind, "ampcast", key, __FILE__, __LINE__);
}

void define_schemas() {
  torch::Library& library = leaked_library(torch::Library::DEF);
  for (const char* schema : kSchemas) {
    library.def(schema, {at::Tag::pt2_compliant_tag});
  }
}

// Registers the kernels of the namespace `device` for a dispatch key.
#define AMPCAST_IMPLEMENT(key, device)                                   \
  do {                                                                   \
    torch::Library& library = leaked_library(torch::Library::IMPL, key); \
    library.impl("check_finite_", TORCH_FN(device::check_finite_));      \
    library.impl("unscale_", TORCH_FN(device::unscale_));                \
    library.impl("unscale_norm_", TORCH_FN(device::unscale_norm_));      \
    library.impl("clip_", TORCH_FN(device::clip_));                      \
    library.impl("copy_cast_", TORCH_FN(device::copy_cast_));            \
    library.impl("update_scale_", TORCH_FN(device::update_scale_));      \
  } while (false)

// An operator whose tensors are all in lists can be called without any, and so without a device to dispatch by.
void implement_without_device() {
  torch::Library& library = leaked_library(torch::Library::IMPL, c10::DispatchKey::CompositeExplicitAutograd);
  library.impl("copy_cast_", TORCH_FN(no_device::copy_cast_));
}

// torch's default for operators without a derivative would box every call, only to warn when a result is differentiated.
void skip_autograd() {
  torch::Library& library = leaked_library(torch::Library::IMPL, c10::DispatchKey::Autograd);
  library.impl("check_finite_", torch::CppFunction::makeFallthrough());
  library.impl("unscale_", torch::CppFunction::makeFallthrough());
  library.impl("unscale_norm_", torch::CppFunction::makeFallthrough());
  library.impl("clip_", torch::CppFunction::makeFallthrough());
  library.impl("copy_cast_", torch::CppFunction::makeFallthrough());
  library.impl("update_scale_", torch::CppFunction::makeFallthrough());
}

} // namespace

void register_ops() {
  static std::once_flag once;
  std::call_once(once, [] {
    define_schemas();
    skip_autograd();
    AMPCAST_IMPLEMENT(c10::DispatchKey::CPU, cpu);
    AMPCAST_IMPLEMENT(c10::DispatchKey::CUDA, cuda);
    AMPCAST_IMPLEMENT(c10::DispatchKey::Meta, meta);
    for (const c10::DispatchKey key : kNotDense) {
      AMPCAST_IMPLEMENT(key, meta);
    }
    implement_without_device();
  });
}

} // namespace ampcast::scaler
