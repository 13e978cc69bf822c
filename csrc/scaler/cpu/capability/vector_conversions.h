#pragma once

#include <ATen/cpu/vec/vec.h>

#include <type_traits>

/// 16-bit numbers to float32 and back, a vector at a time. As all that is compiled once an instruction set, without external
/// linkage.
namespace ampcast::scaler::cpu {
namespace {

using at::vec::Vectorized;

inline auto to_float(const Vectorized<c10::Half>& numbers) {
  return at::vec::convert_half_float(numbers);
}
inline auto to_float(const Vectorized<c10::BFloat16>& numbers) {
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

} // namespace
} // namespace ampcast::scaler::cpu
