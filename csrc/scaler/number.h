#pragma once

#include "common/host_device.h"

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#endif

/// The real numbers that gradients are made of, for kernels of every device.
namespace ampcast::scaler {

#ifdef __CUDACC__
using Half = __half;
using BFloat16 = __nv_bfloat16;
#else
using Half = c10::Half;
using BFloat16 = c10::BFloat16;
#endif

/// `Opmath` is what numbers are multiplied in, `Bits` an integer of its size. A number is Inf or NaN when its bits without
/// the sign, read as an integer, reach `kNonFinite`; a product rounds to Inf or NaN when its own reach `kNonFiniteProduct`.
template <typename T>
struct NumberTraits;

template <>
struct NumberTraits<float> {
  using Opmath = float;
  using Bits = int32_t;
  static constexpr int32_t kNonFinite = 0x7f800000;
  static constexpr Bits kNonFiniteProduct = kNonFinite;
};

template <>
struct NumberTraits<double> {
  using Opmath = double;
  using Bits = int64_t;
  static constexpr int64_t kNonFinite = 0x7ff0000000000000;
  static constexpr Bits kNonFiniteProduct = kNonFinite;
};

template <>
struct NumberTraits<Half> {
  using Opmath = float;
  using Bits = int32_t;
  static constexpr int16_t kNonFinite = 0x7c00;
  static constexpr Bits kNonFiniteProduct = 0x477ff000; // 65520, halfway from the largest float16 to 2^16
};

template <>
struct NumberTraits<BFloat16> {
  using Opmath = float;
  using Bits = int32_t;
  static constexpr int16_t kNonFinite = 0x7f80;
  static constexpr Bits kNonFiniteProduct = 0x7f7f8000; // halfway from the largest bfloat16 to 2^128
};

/// The bits of `number` without its sign: ordered as magnitudes are, NaN above Inf.
template <typename Opmath>
AMPCAST_HOST_DEVICE inline typename NumberTraits<Opmath>::Bits magnitude_bits(Opmath number) {
  using Bits = typename NumberTraits<Opmath>::Bits;
  constexpr Bits kAllButSign = sizeof(Bits) == 8 ? INT64_MAX : INT32_MAX;
  Bits bits;
  memcpy(&bits, &number, sizeof(bits));
  return bits & kAllButSign;
}

/// `number` rounded to nearest even. From float64 to 16 bits by way of float32, as torch does.
template <typename To, typename From>
AMPCAST_HOST_DEVICE inline To round_to(From number) {
  if constexpr (sizeof(To) == 2 || sizeof(From) == 2) {
    return static_cast<To>(static_cast<float>(number));
  } else {
    return static_cast<To>(number);
  }
}

} // namespace ampcast::scaler
