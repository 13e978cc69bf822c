#pragma once

#include <cstdint>

namespace ampcast::scaler::cpu {

/// The real type a tensor is made of, in the order of the kernel tables. A complex element is two of them.
enum class RealType : uint8_t { kFloat32, kFloat64, kFloat16, kBFloat16 };
inline constexpr int kRealTypes = 4;

} // namespace ampcast::scaler::cpu
