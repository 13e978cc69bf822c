#pragma once

#include "scaler/cuda/gradient_body.h"
#include "scaler/cuda/tensor_table.h"
#include "scaler/real_type.h"
#include "scaler/scale_rule.h"

#include <cuda_runtime_api.h>

/// The kernels' launches, over raw pointers on the current device. Each returns what `cudaGetLastError` does.
namespace ampcast::scaler::cuda {

#if CUDART_VERSION >= 13000
inline constexpr int kArgumentBytes = 32764; // as torch: drivers for older toolkits may still be limited
#else
inline constexpr int kArgumentBytes = 4096;
#endif

using GradientTable = TensorTable<1, capacity_of_table(kArgumentBytes, 1)>;
using PairTable = TensorTable<2, capacity_of_table(kArgumentBytes, 2)>;

/// What a pass does to gradients.
struct GradientWork {
  bool writes;
  Norm norm;
};

/// How many blocks to launch for `chunks` chunks on a device of `multiprocessors`.
unsigned blocks_for(uint32_t chunks, int multiprocessors);

/// A table of numbers of the type `real`, and what is done to them.
struct GradientLaunch {
  const GradientTable& table;
  RealType real;
  GradientWork work;
  unsigned blocks;
};

/// Runs `visit_gradients`.
cudaError_t launch_visit_gradients(const GradientLaunch& launch, const GradientPass& pass, cudaStream_t stream);

/// Runs `finish_norm`.
cudaError_t launch_finish_norm(
    const double* partial_norms,
    uint32_t count,
    Norm kind,
    float* norm,
    cudaStream_t stream);

/// Runs `copy_cast` from numbers of the type `src` to the type `dst`.
cudaError_t launch_copy_cast(const PairTable& table, RealType dst, RealType src, unsigned blocks, cudaStream_t stream);

/// Runs `next_scale` on the device.
cudaError_t launch_update_scale(
    float* scale,
    int32_t* growth_tracker,
    const float* found_inf,
    const ScaleRule& rule,
    cudaStream_t stream);

} // namespace ampcast::scaler::cuda
