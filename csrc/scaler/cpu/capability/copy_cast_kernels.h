#pragma once

#include "scaler/real_type.h"

#include <array>
#include <cstdint>

/// The inner loops of `copy_cast_`, over raw memory, compiled once an instruction set. All give the same bits, but for the
/// payload of a NaN.
namespace ampcast::scaler::cpu {

/// `count` elements to convert, of `parts` numbers each; strides are in elements.
struct CastRun {
  void* dst;
  const void* src;
  int64_t dst_stride;
  int64_t src_stride;
  int64_t count;
  int parts;
};

/// Converts the numbers of a run from one real type to another, rounding to nearest even.
using CastKernel = void (*)(const CastRun& run);

/// The kernels of one instruction set, by destination and source.
using CopyCastKernels = std::array<std::array<CastKernel, kRealTypes>, kRealTypes>;

extern const CopyCastKernels copy_cast_kernels_DEFAULT;
#ifdef HAVE_AVX2_CPU_DEFINITION
extern const CopyCastKernels copy_cast_kernels_AVX2;
#endif
#ifdef HAVE_AVX512_CPU_DEFINITION
extern const CopyCastKernels copy_cast_kernels_AVX512;
#endif

} // namespace ampcast::scaler::cpu
