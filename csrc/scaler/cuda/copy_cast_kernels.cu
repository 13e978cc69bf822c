#include "scaler/cuda/copy_cast_body.h"
#include "scaler/cuda/device_block.cuh"
#include "scaler/cuda/launches.h"

namespace ampcast::scaler::cuda {
namespace {

template <typename Dst, typename Src>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    copy_cast_kernel(const __grid_constant__ PairTable table) {
  copy_cast<Dst, Src>(DeviceBlock(nullptr), table);
}

using CastKernel = void (*)(PairTable);

template <typename Dst>
CastKernel kernel_to(RealType src) {
  switch (src) {
    case RealType::kFloat32:
      return copy_cast_kernel<Dst, float>;
    case RealType::kFloat64:
      return copy_cast_kernel<Dst, double>;
    case RealType::kFloat16:
      return copy_cast_kernel<Dst, Half>;
    default:
      return copy_cast_kernel<Dst, BFloat16>;
  }
}

CastKernel kernel_for(RealType dst, RealType src) {
  switch (dst) {
    case RealType::kFloat32:
      return kernel_to<float>(src);
    case RealType::kFloat64:
      return kernel_to<double>(src);
    case RealType::kFloat16:
      return kernel_to<Half>(src);
    default:
      return kernel_to<BFloat16>(src);
  }
}

} // namespace

cudaError_t launch_copy_cast(const PairTable& table, RealType dst, RealType src, unsigned blocks, cudaStream_t stream) {
  kernel_for(dst, src)<<<blocks, kThreads, 0, stream>>>(table);
  return cudaGetLastError();
}

} // namespace ampcast::scaler::cuda
