#include "common/nvtx.h"
#include "scaler/argument_checks.h"
#include "scaler/cast_pair.h"
#include "scaler/cpu/capability/copy_cast_kernels.h"
#include "scaler/cpu/choose_kernels.h"
#include "scaler/cpu/index_space.h"
#include "scaler/cpu/strided_runs.h"
#include "scaler/gradient_dtype.h"
#include "scaler/kernels.h"

#include <ATen/Parallel.h>

#include <vector>

namespace ampcast::scaler::cpu {
namespace {

// A destination and its source as the threads see them.
struct Pair {
  char* dst;
  const char* src;
  CastKernel kernel;
  int64_t begin; // of its elements, in the index space of all pairs
  int64_t end;
  int32_t dst_itemsize;
  int32_t src_itemsize;
  int32_t parts;
  int32_t runs; // index into the list's StridedRuns; -1 for a pair that is flat memory
};

CastKernel kernel_for(RealType dst, RealType src) {
  static const CopyCastKernels& kernels = AMPCAST_CHOOSE_KERNELS(copy_cast_kernels);
  return kernels[static_cast<size_t>(dst)][static_cast<size_t>(src)];
}

// All pairs, their pointers gathered once.
class PairList {
 public:
  PairList(at::TensorList dst, at::TensorList src) {
    pairs_.reserve(dst.size());
    for (size_t i = 0; i < dst.size(); ++i) {
      if (dst[i].numel() != 0) {
        append(dst[i], src[i]);
      }
    }
  }

  int64_t numel() const {
    return numel_of(pairs_);
  }

  // Converts the elements [begin, end) of the index space.
  void cast(int64_t begin, int64_t end) const {
    for_each_part(pairs_, begin, end, [this](const Pair& pair, int64_t first, int64_t last) {
      if (pair.runs < 0) {
        return cast_run(pair, {first, first}, {1, 1}, last - first);
      }
      runs_[pair.runs].for_each(first, last, [&pair](const Each& offsets, const Each& strides, int64_t count) {
        cast_run(pair, offsets, strides, count);
      });
    });
  }

 private:
  using Each = StridedRuns<2>::Each;

  void append(const at::Tensor& dst, const at::Tensor& src) {
    Pair pair{
        static_cast<char*>(dst.mutable_data_ptr()),
        static_cast<const char*>(src.const_data_ptr()),
        kernel_for(gradient_dtype(dst.scalar_type())->real, gradient_dtype(src.scalar_type())->real),
        numel(),
        numel() + dst.numel(),
        static_cast<int32_t>(dst.itemsize()),
        static_cast<int32_t>(src.itemsize()),
        gradient_dtype(dst.scalar_type())->parts,
        -1};
    if (!is_flat(dst, src)) {
      pair.runs = static_cast<int32_t>(runs_.size());
      runs_.push_back({dst.sizes(), {dst.strides(), src.strides()}});
    }
    pairs_.push_back(pair);
  }

  static void cast_run(const Pair& pair, const Each& offsets, const Each& strides, int64_t count) {
    pair.kernel(
        {pair.dst + offsets[0] * pair.dst_itemsize, pair.src + offsets[1] * pair.src_itemsize, strides[0], strides[1],
         count, pair.parts});
  }

  std::vector<Pair> pairs_;
  std::vector<StridedRuns<2>> runs_;
};

} // namespace

void copy_cast_(at::TensorList dst, at::TensorList src) {
  AMPCAST_NVTX_RANGE("ampcast::copy_cast_");
  check_arguments_of_copy_cast(dst, src);
  const PairList pairs(dst, src);
  at::parallel_for(0, pairs.numel(), kGrainSize, [&](int64_t begin, int64_t end) { pairs.cast(begin, end); });
  bump_versions(dst);
}

} // namespace ampcast::scaler::cpu
