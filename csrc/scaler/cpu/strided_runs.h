#pragma once

#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstdint>

namespace ampcast::scaler::cpu {

/// The elements of a tensor in the order of memory, as runs of constant stride; what a stride of 0 repeats counts once.
class StridedRuns {
 public:
  StridedRuns(c10::IntArrayRef sizes, c10::IntArrayRef strides);

  /// How many distinct elements there are.
  int64_t numel() const {
    return numel_;
  }

  /// Calls `visit(offset, stride, count)` for each run of the elements [begin, end); offset and stride are in elements.
  template <typename Visit>
  void for_each(int64_t begin, int64_t end, const Visit& visit) const {
    const Dimension& inner = dimensions_.front();
    while (begin < end) {
      const int64_t count = std::min(end - begin, inner.size - begin % inner.size);
      visit(offset_of(begin), inner.stride, count);
      begin += count;
    }
  }

 private:
  struct Dimension {
    int64_t size;
    int64_t stride;
  };

  int64_t offset_of(int64_t index) const;

  c10::SmallVector<Dimension, 5> dimensions_; // innermost first, at least one
  int64_t numel_ = 1;
};

} // namespace ampcast::scaler::cpu
