#include "scaler/cpu/strided_runs.h"

namespace ampcast::scaler::cpu {

StridedRuns::StridedRuns(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  c10::SmallVector<Dimension, 5> sorted;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1 && strides[i] != 0) {
      sorted.push_back({sizes[i], strides[i]});
      numel_ *= sizes[i];
    }
  }
  std::sort(sorted.begin(), sorted.end(), [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  for (const Dimension& dimension : sorted) {
    if (!dimensions_.empty() && dimensions_.back().size * dimensions_.back().stride == dimension.stride) {
      dimensions_.back().size *= dimension.size;
    } else {
      dimensions_.push_back(dimension);
    }
  }
  if (dimensions_.empty()) {
    dimensions_.push_back({1, 1});
  }
}

int64_t StridedRuns::offset_of(int64_t index) const {
  int64_t offset = 0;
  for (const Dimension& dimension : dimensions_) {
    offset += index % dimension.size * dimension.stride;
    index /= dimension.size;
  }
  return offset;
}

} // namespace ampcast::scaler::cpu
