#include "scaler/cpu/gradient_walk.h"

#include "scaler/cpu/strided_runs.h"
#include "scaler/gradient_dtype.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <atomic>
#include <string>
#include <vector>

namespace ampcast::scaler::cpu {
namespace {

// The least work worth a thread: about 25 us of float32. Waking a second thread costs 5 us on an idle machine, but a slice
// of the scheduler's time, 20 ms and more, on a busy one (measured), so it has to be worth having.
constexpr int64_t kGrainSize = 1 << 18;

// Threads share no cache line of a tensor that starts at one.
constexpr int64_t kCutAlignment = 64;

const GradientKernels& choose_gradient_kernels() {
  [[maybe_unused]] const std::string capability = at::get_cpu_capability();
#ifdef HAVE_AVX512_CPU_DEFINITION
  if (capability == "AVX512") {
    return gradient_kernels_AVX512;
  }
#endif
#ifdef HAVE_AVX2_CPU_DEFINITION
  if (capability == "AVX2" || capability == "AVX512") {
    return gradient_kernels_AVX2;
  }
#endif
  return gradient_kernels_DEFAULT;
}

const RealKernels& kernels_for(at::ScalarType real) {
  static const GradientKernels& kernels = choose_gradient_kernels();
  switch (real) {
    case at::kFloat:
      return kernels[static_cast<size_t>(RealType::kFloat32)];
    case at::kDouble:
      return kernels[static_cast<size_t>(RealType::kFloat64)];
    case at::kHalf:
      return kernels[static_cast<size_t>(RealType::kFloat16)];
    default:
      return kernels[static_cast<size_t>(RealType::kBFloat16)];
  }
}

// What is done to each gradient.
struct Operation {
  GradientKernel RealKernels::*kernel;
  float inv_scale;

  bool writes() const {
    return kernel == &RealKernels::unscale;
  }
};

// One gradient as the threads see it.
struct Gradient {
  char* data;
  GradientKernel kernel;
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

// Runs the kernel on elements `stride` apart, packed into a buffer a block at a time.
template <size_t kSize>
bool visit_packed(const Gradient& gradient, char* data, int64_t stride, int64_t count, const Operation& operation) {
  constexpr int64_t kBlock = 4096 / kSize;
  alignas(64) Element<kSize> packed[kBlock];
  auto* elements = reinterpret_cast<Element<kSize>*>(data);
  bool found = false;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t block = std::min(kBlock, count - begin);
    for (int64_t i = 0; i < block; ++i) {
      packed[i] = elements[(begin + i) * stride];
    }
    found |= gradient.kernel(packed, block * gradient.parts, operation.inv_scale);
    for (int64_t i = 0; operation.writes() && i < block; ++i) {
      elements[(begin + i) * stride] = packed[i];
    }
  }
  return found;
}

bool visit_run(const Gradient& gradient, int64_t offset, int64_t stride, int64_t count, const Operation& operation) {
  char* data = gradient.data + offset * gradient.itemsize;
  if (stride == 1) {
    return gradient.kernel(data, count * gradient.parts, operation.inv_scale);
  }
  switch (gradient.itemsize) {
    case 2:
      return visit_packed<2>(gradient, data, stride, count, operation);
    case 4:
      return visit_packed<4>(gradient, data, stride, count, operation);
    case 8:
      return visit_packed<8>(gradient, data, stride, count, operation);
    default:
      return visit_packed<16>(gradient, data, stride, count, operation);
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
    return gradients_.empty() ? 0 : gradients_.back().end;
  }

  // Visits the elements [begin, end) of the index space; returns whether the kernel found any that is not finite.
  bool visit(int64_t begin, int64_t end) const {
    const auto holds = [](int64_t index, const Gradient& gradient) { return index < gradient.end; };
    auto gradient = std::upper_bound(gradients_.begin(), gradients_.end(), begin, holds);
    bool found = false;
    for (; gradient != gradients_.end() && gradient->begin < end; ++gradient) {
      found |= visit_part(*gradient, cut(*gradient, begin), cut(*gradient, end));
    }
    return found;
  }

 private:
  void append(const at::Tensor& grad) {
    const auto dtype = gradient_dtype(grad.scalar_type());
    const int64_t begin = numel();
    Gradient gradient{
        static_cast<char*>(operation_.writes() ? grad.mutable_data_ptr() : const_cast<void*>(grad.const_data_ptr())),
        kernels_for(dtype->real).*operation_.kernel,
        begin,
        begin + grad.numel(),
        static_cast<int32_t>(grad.itemsize()),
        dtype->parts,
        -1};
    if (!grad.is_non_overlapping_and_dense()) {
      gradient.runs = static_cast<int32_t>(runs_.size());
      runs_.emplace_back(grad.sizes(), grad.strides());
      gradient.end = begin + runs_.back().numel();
    }
    if (gradient.begin < gradient.end) {
      gradients_.push_back(gradient);
    }
  }

  // Where a thread's range that begins or ends at `index` is cut inside the gradient, as an index of its elements.
  static int64_t cut(const Gradient& gradient, int64_t index) {
    const int64_t inside = std::max<int64_t>(index - gradient.begin, 0);
    return std::min((inside + kCutAlignment - 1) / kCutAlignment * kCutAlignment, gradient.end - gradient.begin);
  }

  bool visit_part(const Gradient& gradient, int64_t begin, int64_t end) const {
    if (gradient.runs < 0) {
      return begin < end && visit_run(gradient, begin, 1, end - begin, operation_);
    }
    bool found = false;
    runs_[gradient.runs].for_each(begin, end, [&](int64_t offset, int64_t stride, int64_t count) {
      found |= visit_run(gradient, offset, stride, count, operation_);
    });
    return found;
  }

  Operation operation_;
  std::vector<Gradient> gradients_;
  std::vector<StridedRuns> runs_;
};

} // namespace

void walk_gradients(at::TensorList grads, GradientKernel RealKernels::*kernel, float inv_scale, float& found_inf) {
  const GradientList list(grads, {kernel, inv_scale});
  at::parallel_for(0, list.numel(), kGrainSize, [&](int64_t begin, int64_t end) {
    if (list.visit(begin, end)) {
      std::atomic_ref<float>(found_inf).store(1.0f, std::memory_order_relaxed);
    }
  });
}

} // namespace ampcast::scaler::cpu
