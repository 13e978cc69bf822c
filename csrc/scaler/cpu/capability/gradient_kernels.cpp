// Compiled once an instruction set: raw pointers only, and nothing here may have external linkage but the table at the end.

#include "scaler/cpu/capability/gradient_kernels.h"
#include "scaler/cpu/capability/norms.h"
#include "scaler/cpu/capability/vector_conversions.h"
#include "scaler/number.h"

#include <ATen/cpu/vec/vec.h>

#include <cstring>
#include <limits>
#include <type_traits>

namespace ampcast::scaler::cpu {
namespace {

// `NumberTraits` tells Inf and NaN by integer bits, so that the test of many numbers is one integer maximum a vector.
template <typename T>
using BitsOf = at::vec::int_same_size_t<T>;

template <typename T>
Vectorized<BitsOf<T>> magnitude(const Vectorized<T>& numbers) {
  return at::vec::cast<BitsOf<T>>(numbers) & Vectorized<BitsOf<T>>(std::numeric_limits<BitsOf<T>>::max());
}

// Reads numbers as they are.
template <typename T>
struct Inspect {
  static constexpr bool kWrites = false;
  static constexpr auto kThreshold = NumberTraits<T>::kNonFinite;
  using Bits = std::remove_cv_t<decltype(kThreshold)>;

  explicit Inspect(float /*inv_scale*/) {}
  Vectorized<Bits> operator()(T* numbers) const {
    return Vectorized<Bits>::loadu(numbers) & Vectorized<Bits>(std::numeric_limits<Bits>::max());
  }
};

// Multiplies, and writes the product if kWrites_. 16-bit numbers are multiplied in float32 and rounded once.
template <typename T, bool kWrites_>
struct Multiply {
  static constexpr bool kWrites = kWrites_;
  using Opmath = typename NumberTraits<T>::Opmath;
  using Bits = BitsOf<Opmath>;
  static constexpr Bits kThreshold = NumberTraits<T>::kNonFiniteProduct;

  explicit Multiply(float inv_scale) : inv_scale_(static_cast<Opmath>(inv_scale)) {}

  Vectorized<Bits> operator()(T* numbers) const {
    if constexpr (std::is_same_v<T, Opmath>) {
      const Vectorized<T> product = Vectorized<T>::loadu(numbers) * inv_scale_;
      if constexpr (kWrites) {
        product.store(numbers);
      }
      return magnitude(product);
    } else {
      auto [low, high] = to_float(Vectorized<T>::loadu(numbers));
      low = low * inv_scale_;
      high = high * inv_scale_;
      if constexpr (kWrites) {
        from_float<T>(low, high).store(numbers);
      }
      return at::vec::maximum(magnitude(low), magnitude(high));
    }
  }

 private:
  Vectorized<Opmath> inv_scale_;
};

template <typename Bits>
bool any_reaches(const Vectorized<Bits>& magnitudes, Bits threshold) {
  Bits lanes[Vectorized<Bits>::size()];
  magnitudes.store(lanes);
  bool reached = false;
  for (const Bits lane : lanes) {
    reached |= lane >= threshold;
  }
  return reached;
}

// The last numbers, fewer than a vector: the vector is filled with the first of them, which changes no verdict.
template <typename T, typename Step>
auto visit_tail(T* numbers, int64_t count, const Step& step) {
  T padded[Vectorized<T>::size()];
  for (int64_t i = 0; i < Vectorized<T>::size(); ++i) {
    padded[i] = numbers[i < count ? i : 0];
  }
  const auto magnitudes = step(padded);
  if constexpr (Step::kWrites) {
    std::memcpy(numbers, padded, count * sizeof(T));
  }
  return magnitudes;
}

struct NoSum {
  template <typename T>
  void add(const T* /*numbers*/, int64_t /*count*/) {}
};

// Sums what `Step` leaves while it is at hand, so that memory is waited for meanwhile.
template <typename T, typename Step, typename Sum>
bool visit(T* numbers, int64_t count, float inv_scale, Sum& sum) {
  constexpr int64_t kWidth = Vectorized<T>::size();
  constexpr int64_t kUnrolled = 4;
  constexpr int64_t kAtOnce = kUnrolled * kWidth;
  constexpr bool kSumsAtOnce = kAtOnce % kLanes == 0;
  using Magnitudes = Vectorized<typename Step::Bits>;
  const Step step(inv_scale);
  Magnitudes largest[kUnrolled] = {Magnitudes(0), Magnitudes(0), Magnitudes(0), Magnitudes(0)};
  int64_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) {
    for (int64_t lane = 0; lane < kUnrolled; ++lane) {
      largest[lane] = at::vec::maximum(largest[lane], step(numbers + i + lane * kWidth));
    }
    if constexpr (kSumsAtOnce) {
      sum.add(numbers + i, kAtOnce);
    }
  }
  const int64_t summed = kSumsAtOnce ? i : 0;
  for (; i + kWidth <= count; i += kWidth) {
    largest[0] = at::vec::maximum(largest[0], step(numbers + i));
  }
  if (i < count) {
    largest[1] = at::vec::maximum(largest[1], visit_tail(numbers + i, count - i, step));
  }
  sum.add(numbers + summed, count - summed);
  const auto all = at::vec::maximum(at::vec::maximum(largest[0], largest[1]), at::vec::maximum(largest[2], largest[3]));
  return any_reaches(all, Step::kThreshold);
}

template <typename T, typename Step>
bool visit_only(void* data, int64_t count, float inv_scale) {
  NoSum none;
  return visit<T, Step>(static_cast<T*>(data), count, inv_scale, none);
}

template <typename T, typename Step>
bool visit_and_sum(void* data, int64_t count, float inv_scale, double& squares) {
  SquareSum<T> sum;
  const bool found = visit<T, Step>(static_cast<T*>(data), count, inv_scale, sum);
  squares = sum.total();
  return found;
}

template <typename T>
constexpr RealKernels kernels_of() {
  return {
      {&visit_only<T, Inspect<T>>, &visit_and_sum<T, Inspect<T>>},
      {&visit_only<T, Multiply<T, false>>, nullptr},
      {&visit_only<T, Multiply<T, true>>, &visit_and_sum<T, Multiply<T, true>>},
      &largest<T>,
      &largest_complex<T>,
  };
}

} // namespace

#define AMPCAST_CONCATENATE(a, b) a##b
#define AMPCAST_TABLE_NAME(capability) AMPCAST_CONCATENATE(gradient_kernels_, capability)

extern const GradientKernels AMPCAST_TABLE_NAME(CPU_CAPABILITY) = {
    kernels_of<float>(),
    kernels_of<double>(),
    kernels_of<c10::Half>(),
    kernels_of<c10::BFloat16>(),
};

} // namespace ampcast::scaler::cpu
