// Compiled once an instruction set: raw pointers only, and nothing here may have external linkage but the table at the end.

#include "scaler/cpu/capability/gradient_kernels.h"

#include <ATen/cpu/vec/vec.h>

#include <cstring>
#include <limits>
#include <type_traits>

namespace ampcast::scaler::cpu {
namespace {

using at::vec::Vectorized;

// A number is Inf or NaN when its bits without the sign, read as an integer, reach a threshold; so the test of many numbers
// is one integer maximum a vector. For a product that is rounded further, the threshold is the least one that rounds to Inf.
template <typename T>
using BitsOf = at::vec::int_same_size_t<T>;

template <typename T>
Vectorized<BitsOf<T>> magnitude(const Vectorized<T>& numbers) {
  return at::vec::cast<BitsOf<T>>(numbers) & Vectorized<BitsOf<T>>(std::numeric_limits<BitsOf<T>>::max());
}

template <typename T>
struct Limits;
template <>
struct Limits<float> {
  static constexpr int32_t kNonFinite = 0x7f800000;
  static constexpr int32_t kNonFiniteProduct = kNonFinite;
};
template <>
struct Limits<double> {
  static constexpr int64_t kNonFinite = 0x7ff0000000000000;
  static constexpr int64_t kNonFiniteProduct = kNonFinite;
};
template <>
struct Limits<c10::Half> {
  static constexpr int16_t kNonFinite = 0x7c00;
  static constexpr int32_t kNonFiniteProduct = 0x477ff000; // float32 65520, halfway from the largest float16 to 2^16
};
template <>
struct Limits<c10::BFloat16> {
  static constexpr int16_t kNonFinite = 0x7f80;
  static constexpr int32_t kNonFiniteProduct = 0x7f7f8000; // halfway from the largest bfloat16 to 2^128
};

auto to_float(const Vectorized<c10::Half>& numbers) {
  return at::vec::convert_half_float(numbers);
}
auto to_float(const Vectorized<c10::BFloat16>& numbers) {
  return at::vec::convert_bfloat16_float(numbers);
}

template <typename T>
Vectorized<T> from_float(const Vectorized<float>& low, const Vectorized<float>& high) {
  if constexpr (std::is_same_v<T, c10::Half>) {
    return at::vec::convert_float_half(low, high);
  } else {
    return at::vec::convert_float_bfloat16(low, high);
  }
}

// Reads numbers as they are.
template <typename T>
struct Inspect {
  static constexpr bool kWrites = false;
  static constexpr auto kThreshold = Limits<T>::kNonFinite;
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
  using Opmath = std::conditional_t<std::is_same_v<T, double>, double, float>;
  using Bits = BitsOf<Opmath>;
  static constexpr Bits kThreshold = Limits<T>::kNonFiniteProduct;

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

template <typename T, typename Step>
bool visit(void* data, int64_t count, float inv_scale) {
  constexpr int64_t kWidth = Vectorized<T>::size();
  constexpr int64_t kUnrolled = 4;
  using Magnitudes = Vectorized<typename Step::Bits>;
  T* numbers = static_cast<T*>(data);
  const Step step(inv_scale);
  Magnitudes largest[kUnrolled] = {Magnitudes(0), Magnitudes(0), Magnitudes(0), Magnitudes(0)};
  int64_t i = 0;
  for (; i + kUnrolled * kWidth <= count; i += kUnrolled * kWidth) {
    for (int64_t lane = 0; lane < kUnrolled; ++lane) {
      largest[lane] = at::vec::maximum(largest[lane], step(numbers + i + lane * kWidth));
    }
  }
  for (; i + kWidth <= count; i += kWidth) {
    largest[0] = at::vec::maximum(largest[0], step(numbers + i));
  }
  if (i < count) {
    largest[1] = at::vec::maximum(largest[1], visit_tail(numbers + i, count - i, step));
  }
  const auto all = at::vec::maximum(at::vec::maximum(largest[0], largest[1]), at::vec::maximum(largest[2], largest[3]));
  return any_reaches(all, Step::kThreshold);
}

template <typename T>
constexpr RealKernels kernels_of() {
  return {&visit<T, Inspect<T>>, &visit<T, Multiply<T, false>>, &visit<T, Multiply<T, true>>};
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
