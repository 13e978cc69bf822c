#include "scaler/cuda/device_block.cuh"
#include "scaler/cuda/gradient_body.h"
#include "scaler/cuda/launches.h"

namespace ampcast::scaler::cuda {
namespace {

static_assert(sizeof(GradientTable) + sizeof(GradientPass) <= kArgumentBytes);

template <typename T, bool kWrites, Norm kNorm>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    visit_gradients_kernel(const __grid_constant__ GradientTable table, const GradientPass pass) {
  __shared__ double shared[kThreads / kWarp];
  visit_gradients<T, kWrites, kNorm>(DeviceBlock(shared), table, pass);
}

template <Norm kNorm>
__global__ void __launch_bounds__(kThreads)
    finish_norm_kernel(const double* partial_norms, uint32_t count, float* norm) {
  __shared__ double shared[kThreads / kWarp];
  finish_norm<kNorm>(DeviceBlock(shared), partial_norms, count, norm);
}

using VisitKernel = void (*)(GradientTable, GradientPass);

template <typename T>
VisitKernel kernel_for(GradientWork work) {
  switch (work.norm) {
    case Norm::kNone:
      return work.writes ? visit_gradients_kernel<T, true, Norm::kNone> : visit_gradients_kernel<T, false, Norm::kNone>;
    case Norm::kTwo:
      return visit_gradients_kernel<T, true, Norm::kTwo>;
    case Norm::kInf:
      return visit_gradients_kernel<T, true, Norm::kInf>;
    default:
      return visit_gradients_kernel<T, true, Norm::kComplexInf>;
  }
}

VisitKernel kernel_for(RealType real, GradientWork work) {
  switch (real) {
    case RealType::kFloat32:
      return kernel_for<float>(work);
    case RealType::kFloat64:
      return kernel_for<double>(work);
    case RealType::kFloat16:
      return kernel_for<Half>(work);
    default:
      return kernel_for<BFloat16>(work);
  }
}

} // namespace

unsigned blocks_for(uint32_t chunks, int multiprocessors) {
  const unsigned resident = static_cast<unsigned>(multiprocessors) * kBlocksPerMultiprocessor;
  return chunks < resident ? chunks : resident;
}

cudaError_t launch_visit_gradients(const GradientLaunch& launch, const GradientPass& pass, cudaStream_t stream) {
  kernel_for(launch.real, launch.work)<<<launch.blocks, kThreads, 0, stream>>>(launch.table, pass);
  return cudaGetLastError();
}

cudaError_t launch_finish_norm(
    const double* partial_norms,
    uint32_t count,
    Norm kind,
    float* norm,
    cudaStream_t stream) {
  const auto kernel = kind == Norm::kTwo ? finish_norm_kernel<Norm::kTwo> : finish_norm_kernel<Norm::kInf>;
  kernel<<<1, kThreads, 0, stream>>>(partial_norms, count, norm);
  return cudaGetLastError();
}

} // namespace ampcast::scaler::cuda
