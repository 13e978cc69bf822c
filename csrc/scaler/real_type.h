#pragma once

#include <cstdint>

namespace ampcast::scaler {

/// The real type a tensor is made of, in the order of the kernel tables. A complex element is two of them.
enum class RealType : uint8_t { kFloat32, kFloat64, kFloat16, kBFloat16 };
inline constexpr int kRealTypes = 4;

/// Bytes a number.
constexpr uint32_t size_of(RealType type) {
  switch (type) {
    case RealType::kFloat64:
      return 8;
    case RealType::kFloat32:
      return 4;
    default:
      return 2;
  }
}

} // namespace ampcast::scaler
