#pragma once

#include "scaler/real_type.h"

#include <array>
#include <cstdint>

/// The inner loops of the CPU operators, over raw memory, compiled once an instruction set. All give the same bits, but for
/// the payload of a NaN.
namespace ampcast::scaler::cpu {

/// Visits `count` contiguous numbers at `data` and returns whether any *result*, rounded to its type, is Inf or NaN.
using VisitKernel = bool (*)(void* data, int64_t count, float inv_scale);

/// The same, and sets `squares` to the sum of the squares of what is left at `data`. All instruction sets add in one order.
using VisitAndSumKernel = bool (*)(void* data, int64_t count, float inv_scale, double& squares);

/// What may be done to gradients.
struct GradientKernel {
  VisitKernel visit;
  VisitAndSumKernel visit_and_sum; // null where no operator asks for it
};

/// Reads `count` contiguous numbers at `data`.
using NormKernel = double (*)(const void* data, int64_t count);

/// The kernels of one real type.
struct RealKernels {
  GradientKernel check; // the numbers as they are; reads only, ignores inv_scale
  GradientKernel check_product; // the numbers times inv_scale; reads only
  GradientKernel unscale; // writes the numbers times inv_scale
  NormKernel largest; // magnitude; NaN if there is one
  NormKernel largest_complex; // the same of pairs of numbers
};

/// The kernels of one instruction set.
using GradientKernels = std::array<RealKernels, kRealTypes>;

extern const GradientKernels gradient_kernels_DEFAULT;
#ifdef HAVE_AVX2_CPU_DEFINITION
extern const GradientKernels gradient_kernels_AVX2;
#endif
#ifdef HAVE_AVX512_CPU_DEFINITION
extern const GradientKernels gradient_kernels_AVX512;
#endif

} // namespace ampcast::scaler::cpu
