#pragma once

#include "common/host_device.h"
#include "scaler/cuda/tensor_table.h"
#include "scaler/cuda/vector.h"
#include "scaler/number.h"

/// The body of the kernels of `copy_cast_`; see `gradient_body.h` for what a `Block` is.
namespace ampcast::scaler::cuda {

/// Converts vectors: all threads of the block together.
template <typename Dst, typename Src, int kNumel, typename Block>
AMPCAST_DEVICE inline void cast_vectors(
    const Block& block,
    Vector<Dst, kNumel>* dst,
    const Vector<Src, kNumel>* src,
    uint32_t count) {
  for_each_vector<2>(block, src, count, [dst](uint32_t index, const Vector<Src, kNumel>& vector) {
    Vector<Dst, kNumel> converted;
    AMPCAST_UNROLL
    for (int number = 0; number < kNumel; ++number) {
      converted.numbers[number] = round_to<Dst>(vector.numbers[number]);
    }
    dst[index] = converted;
  });
}

/// Converts `numel` numbers: all threads of the block together. In vectors where both sides can be aligned to 16 bytes.
template <typename Dst, typename Src, typename Block>
AMPCAST_DEVICE inline void cast_numbers(const Block& block, Dst* dst, const Src* src, uint32_t numel) {
  constexpr int kNumel = 16 / (sizeof(Dst) < sizeof(Src) ? sizeof(Dst) : sizeof(Src));
  const uint32_t before = numel_before_alignment(dst, numel);
  const bool both = reinterpret_cast<uintptr_t>(src + before) % 16 == 0;
  const Parts parts(both ? before : numel, numel, kNumel);
  cast_vectors(
      block, reinterpret_cast<Vector<Dst, kNumel>*>(dst + parts.head),
      reinterpret_cast<const Vector<Src, kNumel>*>(src + parts.head), parts.vectors);
  AMPCAST_NO_UNROLL
  for (uint32_t i = block.thread(); i < parts.edges; i += block.threads()) {
    dst[parts.edge(i)] = round_to<Dst>(src[parts.edge(i)]);
  }
}

/// Converts all numbers of a table, from the second column to the first.
template <typename Dst, typename Src, typename Block, typename Table>
AMPCAST_DEVICE inline void copy_cast(const Block& block, const Table& table) {
  AMPCAST_NO_UNROLL
  for (uint32_t index = block.index(); index < table.chunks(); index += block.blocks()) {
    const auto chunk = table.chunk(index);
    cast_numbers(
        block, static_cast<Dst*>(chunk.data[0]) + chunk.begin, static_cast<const Src*>(chunk.data[1]) + chunk.begin,
        chunk.numel);
  }
}

} // namespace ampcast::scaler::cuda
