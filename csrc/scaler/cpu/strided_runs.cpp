#include "scaler/cpu/strided_runs.h"

namespace ampcast::scaler::cpu {

template <size_t kTensors>
StridedRuns<kTensors>::StridedRuns(c10::IntArrayRef sizes, const std::array<c10::IntArrayRef, kTensors>& strides) {
  c10::SmallVector<Dimension, 5> sorted;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1 && strides[0][i] != 0) {
      Dimension dimension{sizes[i], {}};
      std::transform(strides.begin(), strides.end(), dimension.strides.begin(), [i](auto of) { return of[i]; });
      sorted.push_back(dimension);
      numel_ *= sizes[i];
    }
  }
  const auto is_inner = [](const Dimension& a, const Dimension& b) { return a.strides[0] < b.strides[0]; };
  std::sort(sorted.begin(), sorted.end(), is_inner);
  for (const Dimension& dimension : sorted) {
    if (!dimensions_.empty() && dimension.continues(dimensions_.back())) {
      dimensions_.back().size *= dimension.size;
    } else {
      dimensions_.push_back(dimension);
    }
  }
  if (dimensions_.empty()) {
    Dimension one{1, {}};
    one.strides.fill(1);
    dimensions_.push_back(one);
  }
}

// Whether this dimension and the one inside it are one dimension in the memory of every tensor.
template <size_t kTensors>
bool StridedRuns<kTensors>::Dimension::continues(const Dimension& inner) const {
  const auto is_next = [&inner](int64_t outer, int64_t stride) { return outer == inner.size * stride; };
  return std::equal(strides.begin(), strides.end(), inner.strides.begin(), is_next);
}

template <size_t kTensors>
auto StridedRuns<kTensors>::offsets_of(int64_t index) const -> Each {
  Each offsets{};
  for (const Dimension& dimension : dimensions_) {
    for (size_t tensor = 0; tensor < kTensors; ++tensor) {
      offsets[tensor] += index % dimension.size * dimension.strides[tensor];
    }
    index /= dimension.size;
  }
  return offsets;
}

template class StridedRuns<1>;
template class StridedRuns<2>;

} // namespace ampcast::scaler::cpu
