#include "common/nvtx.h"
#include "scaler/argument_checks.h"
#include "scaler/cast_pair.h"
#include "scaler/cuda/device.h"
#include "scaler/cuda/launches.h"
#include "scaler/gradient_dtype.h"
#include "scaler/kernels.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/cuda/CUDAException.h>

#include <algorithm>
#include <vector>

namespace ampcast::scaler::cuda {
namespace {

// A destination and its source as the kernel sees them.
struct Pair {
  GradientDtype dst_dtype;
  GradientDtype src_dtype;
  void* dst;
  void* src; // only read
  uint64_t numel; // of numbers

  bool has_dtypes_of(const Pair& other) const {
    return dst_dtype.real == other.dst_dtype.real && src_dtype.real == other.src_dtype.real;
  }
};

Pair pair_of(const at::Tensor& dst, const at::Tensor& src) {
  const GradientDtype dtype = *gradient_dtype(dst.scalar_type());
  return {
      dtype, *gradient_dtype(src.scalar_type()), dst.mutable_data_ptr(), const_cast<void*>(src.const_data_ptr()),
      static_cast<uint64_t>(dst.numel()) * dtype.parts};
}

// Launches the pairs [begin, end), which have one dtype on either side.
void cast(std::vector<Pair>::const_iterator begin, std::vector<Pair>::const_iterator end, const OnDevice& device) {
  const uint32_t itemsize = std::max(size_of(begin->dst_dtype.real), size_of(begin->src_dtype.real));
  while (begin != end) {
    PairTable table(kChunkBytes / itemsize);
    const Pair& first = *begin;
    for (; begin != end && !table.is_full(); ++begin) {
      table.append({begin->dst, begin->src}, begin->numel);
    }
    C10_CUDA_CHECK(launch_copy_cast(
        table, first.dst_dtype.real, first.src_dtype.real, blocks_for(table.chunks(), device.multiprocessors()),
        device.stream()));
  }
}

} // namespace

void copy_cast_(at::TensorList dst, at::TensorList src) {
  AMPCAST_NVTX_RANGE("ampcast::copy_cast_");
  check_arguments_of_copy_cast(dst, src);
  const at::AutoDispatchBelowADInplaceOrView no_autograd; // for torch's own copy
  const OnDevice device(dst[0]);
  std::vector<Pair> pairs;
  for (size_t i = 0; i < dst.size(); ++i) {
    if (!is_flat(dst[i], src[i])) {
      dst[i].copy_(src[i]);
    } else if (dst[i].numel() != 0) {
      pairs.push_back(pair_of(dst[i], src[i]));
    }
  }
  for (auto begin = pairs.begin(); begin != pairs.end();) {
    const Pair first = *begin;
    const auto end =
        std::stable_partition(begin, pairs.end(), [&first](const Pair& pair) { return pair.has_dtypes_of(first); });
    cast(begin, end, device);
    begin = end;
  }
  bump_versions(dst);
}

} // namespace ampcast::scaler::cuda
