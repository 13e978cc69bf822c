#include "scaler/cpu/gradient_walk.h"

#include "scaler/cpu/choose_kernels.h"
#include "scaler/cpu/index_space.h"
#include "scaler/cpu/strided_runs.h"
#include "scaler/gradient_dtype.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

namespace ampcast::scaler::cpu {
namespace {

// Elements visited at once: what a kernel wrote is still in the core's cache when the norm reads it. Norms of blocks are
// added in their order, so that the sum does not depend on the number of threads.
constexpr int64_t kBlock = 1 << 12;

constexpr int64_t kBlocksPerThread = kGrainSize / kBlock;

const RealKernels& kernels_for(RealType real) {
  static const GradientKernels& kernels = AMPCAST_CHOOSE_KERNELS(gradient_kernels);
  return kernels[static_cast<size_t>(real)];
}

bool writes(const Operation& operation) {
  return operation.kernel == &RealKernels::unscale;
}

// What is found in some of the elements. Begins as what is found in none.
class Partial {
 public:
  explicit Partial(NormType norm = NormType::kNone) : norm_type_(norm) {}

  void add(bool non_finite, double norm) {
    non_finite_ |= non_finite;
    if (norm_type_ == NormType::kTwo) {
      norm_ += norm;
    } else if (!(norm <= norm_) && !std::isnan(norm_)) {
      norm_ = norm;
    }
  }
  void add(const Partial& other) {
    add(other.non_finite_, other.norm_);
  }

  Findings findings() const {
    return {non_finite_, norm_type_ == NormType::kTwo ? std::sqrt(norm_) : norm_};
  }

 private:
  NormType norm_type_;
  bool non_finite_ = false;
  double norm_ = 0; // for the 2-norm the sum of squares
};

// One gradient as the threads see it.
struct Gradient {
  char* data;
  GradientKernel kernel;
  NormKernel largest; // for the inf-norm
  int64_t begin; // of its elements, in the index space of all gradients
  int64_t end;
  int32_t itemsize;
  int32_t parts;
  int32_t runs; // index into the list's StridedRuns; -1 for a tensor without gaps
};

template <size_t kSize>
struct Element {
  char bytes[kSize];
};

void visit_flat(const Gradient& gradient, void* data, int64_t count, const Operation& operation, Partial& partial) {
  const int64_t numbers = count * gradient.parts;
  double norm = 0;
  bool non_finite = false;
  if (operation.norm == NormType::kTwo) {
    non_finite = gradient.kernel.visit_and_sum(data, numbers, operation.factor, norm);
  } else {
    non_finite = gradient.kernel.visit(data, numbers, operation.factor);
    norm = operation.norm == NormType::kInf ? gradient.largest(data, numbers) : 0;
  }
  partial.add(non_finite, norm);
}

// Visits elements `stride` apart, packed into a buffer a few at a time.
template <size_t kSize>
void visit_packed(
    const Gradient& gradient,
    char* data,
    int64_t stride,
    int64_t count,
    const Operation& operation,
    Partial& partial) {
  constexpr int64_t kPacked = 4096 / kSize;
  alignas(64) Element<kSize> packed[kPacked];
  auto* elements = reinterpret_cast<Element<kSize>*>(data);
  for (int64_t begin = 0; begin < count; begin += kPacked) {
    const int64_t part = std::min(kPacked, count - begin);
    for (int64_t i = 0; i < part; ++i) {
      packed[i] = elements[(begin + i) * stride];
    }
    visit_flat(gradient, packed, part, operation, partial);
    for (int64_t i = 0; writes(operation) && i < part; ++i) {
      elements[(begin + i) * stride] = packed[i];
    }
  }
}

void visit_strided(
    const Gradient& gradient,
    char* data,
    int64_t stride,
    int64_t count,
    const Operation& operation,
    Partial& partial) {
  switch (gradient.itemsize) {
    case 2:
      return visit_packed<2>(gradient, data, stride, count, operation, partial);
    case 4:
      return visit_packed<4>(gradient, data, stride, count, operation, partial);
    case 8:
      return visit_packed<8>(gradient, data, stride, count, operation, partial);
    default:
      return visit_packed<16>(gradient, data, stride, count, operation, partial);
  }
}

// All gradients, their pointers gathered once.
class GradientList {
 public:
  GradientList(at::TensorList grads, const Operation& operation) : operation_(operation) {
    gradients_.reserve(grads.size());
    for (const at::Tensor& grad : grads) {
      append(grad);
    }
  }

  int64_t numel() const {
    return numel_of(gradients_);
  }

  // Visits a block of the index space.
  Partial visit(int64_t block) const {
    Partial partial(operation_.norm);
    for_each_part(
        gradients_, block * kBlock, (block + 1) * kBlock,
        [&](const Gradient& gradient, int64_t begin, int64_t end) { visit_part(gradient, begin, end, partial); });
    return partial;
  }

 private:
  void append(const at::Tensor& grad) {
    const auto dtype = gradient_dtype(grad.scalar_type());
    const RealKernels& kernels = kernels_for(dtype->real);
    const int64_t begin = numel();
    Gradient gradient{
        static_cast<char*>(writes(operation_) ? grad.mutable_data_ptr() : const_cast<void*>(grad.const_data_ptr())),
        kernels.*operation_.kernel,
        dtype->parts == 2 ? kernels.largest_complex : kernels.largest,
        begin,
        begin + grad.numel(),
        static_cast<int32_t>(grad.itemsize()),
        dtype->parts,
        -1};
    if (!grad.is_non_overlapping_and_dense()) {
      gradient.runs = static_cast<int32_t>(runs_.size());
      runs_.push_back({grad.sizes(), {grad.strides()}});
      gradient.end = begin + runs_.back().numel();
    }
    if (gradient.begin < gradient.end) {
      gradients_.push_back(gradient);
    }
  }

  void visit_part(const Gradient& gradient, int64_t begin, int64_t end, Partial& partial) const {
    if (gradient.runs < 0) {
      return visit_run(gradient, begin, 1, end - begin, partial);
    }
    runs_[gradient.runs].for_each(begin, end, [&](const auto& offsets, const auto& strides, int64_t count) {
      visit_run(gradient, offsets[0], strides[0], count, partial);
    });
  }

  void visit_run(const Gradient& gradient, int64_t offset, int64_t stride, int64_t count, Partial& partial) const {
    char* data = gradient.data + offset * gradient.itemsize;
    if (stride != 1) {
      visit_strided(gradient, data, stride, count, operation_, partial);
    } else if (count > 0) {
      visit_flat(gradient, data, count, operation_, partial);
    }
  }

  Operation operation_;
  std::vector<Gradient> gradients_;
  std::vector<StridedRuns<1>> runs_;
};

} // namespace

Findings walk_gradients(at::TensorList grads, const Operation& operation) {
  const GradientList list(grads, operation);
  std::vector<Partial> partials((list.numel() + kBlock - 1) / kBlock, Partial(operation.norm));
  const auto blocks = static_cast<int64_t>(partials.size());
  at::parallel_for(0, blocks, kBlocksPerThread, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      partials[block] = list.visit(block);
    }
  });
  Partial all(operation.norm);
  for (const Partial& partial : partials) {
    all.add(partial);
  }
  return all.findings();
}

void set_found_inf(const at::Tensor& found_inf) {
  std::atomic_ref<float>(*found_inf.mutable_data_ptr<float>()).store(1.0f, std::memory_order_relaxed);
}

} // namespace ampcast::scaler::cpu
