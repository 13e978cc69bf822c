// Compiled once an instruction set: raw pointers only, and nothing here may have external linkage but the table at the end.

#include "scaler/cpu/capability/gradient_kernels.h"
#include "scaler/number.h"

#include <ATen/cpu/vec/vec.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>

namespace ampcast::scaler::cpu {
namespace {

using at::vec::Vectorized;

// `NumberTraits` tells Inf and NaN by integer bits, so that the test of many numbers is one integer maximum a vector.
template <typename T>
using BitsOf = at::vec::int_same_size_t<T>;

template <typename T>
Vectorized<BitsOf<T>> magnitude(const Vectorized<T>& numbers) {
  return at::vec::cast<BitsOf<T>>(numbers) & Vectorized<BitsOf<T>>(std::numeric_limits<BitsOf<T>>::max());
}

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

// The norms accumulate in as many lanes whatever the width of a vector, so that the order of additions is always the same.
constexpr int64_t kLanes = 32;

template <typename T>
using Wide = typename NumberTraits<T>::Opmath;

template <typename T>
void widen(const T* numbers, Wide<T>* wide) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    std::copy_n(numbers, kLanes, wide);
  } else {
    for (int64_t i = 0; i < kLanes; i += Vectorized<T>::size()) {
      const auto [low, high] = to_float(Vectorized<T>::loadu(numbers + i));
      low.store(wide + i);
      high.store(wide + i + Vectorized<float>::size());
    }
  }
}

// Calls `add` with kLanes numbers at a time, the last of them filled up with zeros, which change no norm.
template <typename T, typename Add>
void for_each_lanes(const void* data, int64_t count, const Add& add) {
  const T* numbers = static_cast<const T*>(data);
  Wide<T> wide[kLanes];
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    if constexpr (std::is_same_v<T, Wide<T>>) {
      add(numbers + i);
    } else {
      widen(numbers + i, wide);
      add(wide);
    }
  }
  if (i < count) {
    T padded[kLanes] = {};
    std::copy_n(numbers + i, count - i, padded);
    widen(padded, wide);
    add(wide);
  }
}

// The compiler's own vectors: it splits them where registers are narrower, and the sums stay in registers.
template <typename Number>
using Vector8 [[gnu::vector_size(8 * sizeof(Number))]] = Number;

template <typename Number>
void load_doubles(const Number* numbers, Vector8<double>& doubles) {
#ifdef CPU_CAPABILITY_AVX512
  if constexpr (std::is_same_v<Number, float>) {
    doubles = _mm512_cvtps_pd(_mm256_loadu_ps(numbers)); // GCC 12 would convert the halves one by one
    return;
  }
#endif
  Vector8<Number> loaded;
  std::memcpy(&loaded, numbers, sizeof(loaded));
  doubles = __builtin_convertvector(loaded, Vector8<double>);
}

// Adds the square of each of `numbers`. Of float32 a square is exact in double, so that fusing the two changes no bit.
template <typename Number>
void add_squares(const Number* numbers, Vector8<double>& sums) {
  Vector8<double> doubles;
  load_doubles(numbers, doubles);
#ifdef CPU_CAPABILITY_AVX512
  if constexpr (std::is_same_v<Number, float>) {
    sums = _mm512_fmadd_pd(doubles, doubles, sums);
    return;
  }
#endif
  sums += doubles * doubles;
}

// The sum of squares, in double, where those of float32 do not overflow.
template <typename T>
class SquareSum {
 public:
  // Takes multiples of kLanes numbers, but for the last ones.
  void add(const T* numbers, int64_t count) {
    for_each_lanes<T>(numbers, count, [this](const Wide<T>* lanes) {
      for (int64_t i = 0; i < 4; ++i) {
        add_squares(lanes + 8 * i, sums_[i]);
      }
    });
  }

  double total() const {
    const Vector8<double> sum = (sums_[0] + sums_[1]) + (sums_[2] + sums_[3]);
    double lanes[8];
    std::memcpy(lanes, &sum, sizeof(lanes));
    return std::accumulate(std::begin(lanes), std::end(lanes), 0.0);
  }

 private:
  static_assert(kLanes == 32);
  Vector8<double> sums_[4] = {};
};

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
double largest(const void* data, int64_t count) {
  BitsOf<Wide<T>> bits[kLanes] = {};
  for_each_lanes<T>(data, count, [&bits](const Wide<T>* numbers) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      bits[lane] = std::max(bits[lane], magnitude_bits(numbers[lane]));
    }
  });
  return std::bit_cast<Wide<T>>(*std::max_element(std::begin(bits), std::end(bits)));
}

template <typename T>
double largest_complex(const void* data, int64_t count) {
  int64_t bits = 0;
  for_each_lanes<T>(data, count, [&bits](const Wide<T>* numbers) {
    for (int64_t lane = 0; lane < kLanes; lane += 2) {
      bits = std::max(bits, magnitude_bits(std::hypot(double{numbers[lane]}, double{numbers[lane + 1]})));
    }
  });
  return std::bit_cast<double>(bits);
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
