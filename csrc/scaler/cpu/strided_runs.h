#pragma once

#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace ampcast::scaler::cpu {

/// The elements of `kTensors` tensors of one shape, in the order of the first one's memory, as runs of constant strides; what
/// a stride of 0 in the first repeats counts once.
template <size_t kTensors>
class StridedRuns {
 public:
  /// One number a tensor, in elements.
  using Each = std::array<int64_t, kTensors>;

  StridedRuns(c10::IntArrayRef sizes, const std::array<c10::IntArrayRef, kTensors>& strides);

  /// How many distinct elements the first tensor has.
  int64_t numel() const {
    return numel_;
  }

  /// Calls `visit(offsets, strides, count)` for each run of the elements [begin, end).
  template <typename Visit>
  void for_each(int64_t begin, int64_t end, const Visit& visit) const {
    const Dimension& inner = dimensions_.front();
    while (begin < end) {
      const int64_t count = std::min(end - begin, inner.size - begin % inner.size);
      visit(offsets_of(begin), inner.strides, count);
      begin += count;
    }
  }

 private:
  struct Dimension {
    int64_t size;
    Each strides;

    bool continues(const Dimension& inner) const;
  };

  Each offsets_of(int64_t index) const;

  c10::SmallVector<Dimension, 5> dimensions_; // innermost first, at least one
  int64_t numel_ = 1;
};

} // namespace ampcast::scaler::cpu
