#pragma once

#include <ATen/Version.h>

#include <string>

#ifdef HAVE_AVX2_CPU_DEFINITION
#define AMPCAST_AVX2_KERNELS(name) &name##_AVX2
#else
#define AMPCAST_AVX2_KERNELS(name) nullptr
#endif
#ifdef HAVE_AVX512_CPU_DEFINITION
#define AMPCAST_AVX512_KERNELS(name) &name##_AVX512
#else
#define AMPCAST_AVX512_KERNELS(name) nullptr
#endif

/// Of the tables `name_DEFAULT`, `name_AVX2` and `name_AVX512` that are compiled, the one for the instruction set torch uses.
#define AMPCAST_CHOOSE_KERNELS(name) \
  ::ampcast::scaler::cpu::choose_kernels(name##_DEFAULT, AMPCAST_AVX2_KERNELS(name), AMPCAST_AVX512_KERNELS(name))

/// What leads from torch's instruction set to the kernels that are compiled once an instruction set.
namespace ampcast::scaler::cpu {

/// See `AMPCAST_CHOOSE_KERNELS`; a table that is not compiled is null.
template <typename Kernels>
const Kernels& choose_kernels(const Kernels& fallback, const Kernels* avx2, const Kernels* avx512) {
  const std::string capability = at::get_cpu_capability();
  if (capability == "AVX512" && avx512 != nullptr) {
    return *avx512;
  }
  const bool has_avx2 = capability == "AVX2" || capability == "AVX512";
  return has_avx2 && avx2 != nullptr ? *avx2 : fallback;
}

} // namespace ampcast::scaler::cpu
