#pragma once

#include "scaler/cpu/capability/vector_conversions.h"
#include "scaler/number.h"

#include <ATen/cpu/vec/vec.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <type_traits>

/// What norms are made of, with the same bits from every instruction set. Without external linkage.
namespace ampcast::scaler::cpu {
namespace {

// The norms accumulate in as many lanes whatever the width of a vector, so that the order of additions is always the same.
inline constexpr int64_t kLanes = 32;

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

template <typename T>
double largest(const void* data, int64_t count) {
  typename NumberTraits<Wide<T>>::Bits bits[kLanes] = {};
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

} // namespace
} // namespace ampcast::scaler::cpu
