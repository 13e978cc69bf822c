#pragma once

#include "common/host_device.h"

#include <cstdint>

namespace ampcast::scaler::cuda {

/// What a block visits at once: four 16-byte accesses for each of 256 threads. Small, so that blocks end together.
inline constexpr uint32_t kChunkBytes = 1 << 14;

/// A part of a tensor, or of `kPointers` tensors of one size.
template <int kPointers>
struct Chunk {
  void* data[kPointers]; // of the whole tensors
  uint64_t begin; // index of the first number
  uint32_t numel;
};

/// Up to `kCapacity` rows of `kPointers` tensors of one size, which a kernel takes by value: no memory on the device is
/// allocated or written for them. Tensors are cut into chunks, which are numbered through the whole table.
template <int kPointers_, int kCapacity_>
class TensorTable {
 public:
  static constexpr int kPointers = kPointers_;
  static constexpr int kCapacity = kCapacity_;

  /// A table without rows, whose chunks hold `chunk_numel` numbers each but for the last of a row.
  explicit TensorTable(uint32_t chunk_numel) : chunk_numel_(chunk_numel) {
    first_chunk_[0] = 0;
  }

  bool is_full() const {
    return rows_ == kCapacity;
  }

  /// Adds tensors of `numel` numbers, at least one, to a table that is not full.
  void append(void* const (&data)[kPointers], uint64_t numel) {
    for (int i = 0; i < kPointers; ++i) {
      data_[i][rows_] = data[i];
    }
    const uint64_t full = (numel - 1) / chunk_numel_;
    last_chunk_numel_[rows_] = static_cast<uint32_t>(numel - full * chunk_numel_);
    first_chunk_[rows_ + 1] = first_chunk_[rows_] + static_cast<uint32_t>(full) + 1;
    ++rows_;
  }

  AMPCAST_HOST_DEVICE uint32_t chunks() const {
    return first_chunk_[rows_];
  }

  AMPCAST_HOST_DEVICE Chunk<kPointers> chunk(uint32_t index) const {
    const uint32_t row = row_of(index);
    Chunk<kPointers> chunk;
    for (int i = 0; i < kPointers; ++i) {
      chunk.data[i] = data_[i][row];
    }
    chunk.begin = uint64_t{index - first_chunk_[row]} * chunk_numel_;
    chunk.numel = index + 1 == first_chunk_[row + 1] ? last_chunk_numel_[row] : chunk_numel_;
    return chunk;
  }

 private:
  AMPCAST_HOST_DEVICE uint32_t row_of(uint32_t chunk) const {
    uint32_t low = 0;
    uint32_t high = rows_ - 1;
    while (low < high) {
      const uint32_t middle = (low + high + 1) / 2;
      if (first_chunk_[middle] <= chunk) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  void* data_[kPointers][kCapacity];
  uint32_t first_chunk_[kCapacity + 1]; // of each row, and of the one that would come next
  uint32_t last_chunk_numel_[kCapacity];
  uint32_t chunk_numel_;
  uint32_t rows_ = 0;
};

/// How many rows of `pointers` pointers fit into `bytes`, beside the kernel's other arguments.
constexpr int capacity_of_table(int bytes, int pointers) {
  constexpr int kOtherArguments = 128;
  return (bytes - kOtherArguments) / (8 * pointers + 8);
}

} // namespace ampcast::scaler::cuda
