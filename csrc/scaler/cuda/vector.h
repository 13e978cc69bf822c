#pragma once

#include "common/host_device.h"

#include <cstdint>

namespace ampcast::scaler::cuda {

/// `kNumel` numbers that are read and written 16 bytes at a time.
template <typename T, int kNumel_ = 16 / sizeof(T)>
struct alignas(16) Vector {
  static constexpr int kNumel = kNumel_;
  T numbers[kNumel];
};

/// How many numbers stand before the first address that is a multiple of 16, or `numel` if there are none behind it.
template <typename T>
AMPCAST_HOST_DEVICE inline uint32_t numel_before_alignment(const T* numbers, uint32_t numel) {
  const auto bytes = static_cast<uint32_t>(-reinterpret_cast<uintptr_t>(numbers) % 16);
  return bytes % sizeof(T) != 0 || bytes / sizeof(T) > numel ? numel : static_cast<uint32_t>(bytes / sizeof(T));
}

/// The parts of a run of numbers: vectors, and before and behind them what does not fill one.
struct Parts {
  uint32_t head; // numbers
  uint32_t vectors;
  uint32_t tail; // index of its first number
  uint32_t edges; // numbers of head and tail together

  AMPCAST_HOST_DEVICE Parts(uint32_t head_, uint32_t numel, uint32_t vector_numel)
      : head(head_),
        vectors((numel - head_) / vector_numel),
        tail(head_ + vectors * vector_numel),
        edges(head_ + numel - tail) {}

  /// Index of a number of head or tail, counted through both.
  AMPCAST_HOST_DEVICE uint32_t edge(uint32_t index) const {
    return index < head ? index : tail + index - head;
  }
};

/// Calls `use(index, vector)` with a copy of each of `count` vectors: all threads of the block together, each with the loads of
/// `kAtOnce` under way at once.
template <uint32_t kAtOnce, typename T, int kNumel, typename Block, typename Use>
AMPCAST_DEVICE inline void for_each_vector(
    const Block& block,
    const Vector<T, kNumel>* vectors,
    uint32_t count,
    const Use& use) {
  const uint32_t threads = block.threads();
  AMPCAST_NO_UNROLL
  for (uint32_t first = block.thread(); first < count; first += kAtOnce * threads) {
    Vector<T, kNumel> loaded[kAtOnce];
    AMPCAST_UNROLL
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (first + i * threads < count) {
        loaded[i] = vectors[first + i * threads];
      }
    }
    AMPCAST_UNROLL
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (first + i * threads < count) {
        use(first + i * threads, loaded[i]);
      }
    }
  }
}

} // namespace ampcast::scaler::cuda
