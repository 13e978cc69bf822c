#pragma once

#include "common/host_device.h"
#include "scaler/clip_rule.h"
#include "scaler/cuda/tensor_table.h"
#include "scaler/cuda/vector.h"
#include "scaler/number.h"

#include <cmath>

/// The bodies of the kernels on gradients, for a thread of a `Block`: the device's (`device_block.cuh`) or a simulated one, by
/// which the tests run them on the host. A block tells its `thread()` of `threads()` and its `index()` of `blocks()`, and has
/// `any` and `sync` for all of its threads, `shuffle_down` for those of a warp, `shared()` of one double a warp, and `store`.
namespace ampcast::scaler::cuda {

inline constexpr uint32_t kWarp = 32;

enum class Norm { kNone, kTwo, kInf, kComplexInf };

/// What gradients are multiplied by, read on the device: one of the pointers is not null, or the factor is 1.
struct Factor {
  const float* inv_scale;
  const float* norm; // the gradients' norm, to be clipped to `max_norm`
  float max_norm;

  AMPCAST_DEVICE float load() const {
    if (norm != nullptr) {
      return clip_coefficient(*norm, max_norm);
    }
    return inv_scale != nullptr ? *inv_scale : 1.0f;
  }
};

/// What a pass over gradients reads and writes beside them.
struct GradientPass {
  Factor factor;
  float* found_inf; // set to 1 if a product is Inf or NaN; null: not asked for
  double* partial_norms; // one a block
};

/// Adds what some numbers contribute to a norm, and what several partial norms do. Begins as the norm of nothing.
template <Norm kNorm>
class NormSum {
 public:
  static constexpr int kParts = kNorm == Norm::kComplexInf ? 2 : 1; // numbers that are added at once

  template <typename T>
  AMPCAST_DEVICE void add_numbers(const T* numbers) {
    const auto first = round_to<double>(numbers[0]);
    if constexpr (kNorm == Norm::kTwo) {
      sum_ += first * first;
    } else if constexpr (kNorm == Norm::kInf) {
      add(std::fabs(first));
    } else if constexpr (kNorm == Norm::kComplexInf) {
      add(std::hypot(first, round_to<double>(numbers[1])));
    }
  }

  AMPCAST_DEVICE void add(double partial) {
    if constexpr (kNorm == Norm::kTwo) {
      sum_ += partial;
    } else if (magnitude_bits(partial) > magnitude_bits(sum_)) {
      sum_ = partial;
    }
  }

  AMPCAST_DEVICE double sum() const {
    return sum_;
  }

  AMPCAST_DEVICE float norm() const {
    return static_cast<float>(kNorm == Norm::kTwo ? std::sqrt(sum_) : sum_);
  }

 private:
  double sum_ = 0; // for the 2-norm of squares
};

/// Multiplies numbers, remembers the largest magnitude of a product, and sums what is rounded from them.
template <typename T, Norm kNorm>
class Multiply {
 public:
  static constexpr int kParts = NormSum<kNorm>::kParts;

  AMPCAST_DEVICE explicit Multiply(float factor) : factor_(factor) {}

  /// Multiplies `kParts` numbers.
  AMPCAST_DEVICE void operator()(T* numbers) {
    AMPCAST_UNROLL
    for (int i = 0; i < kParts; ++i) {
      const Opmath product = round_to<Opmath>(numbers[i]) * factor_;
      const Bits magnitude = magnitude_bits(product);
      largest_ = magnitude > largest_ ? magnitude : largest_;
      numbers[i] = round_to<T>(product);
    }
    norm_.add_numbers(numbers);
  }

  AMPCAST_DEVICE bool found_inf() const {
    return largest_ >= NumberTraits<T>::kNonFiniteProduct;
  }

  AMPCAST_DEVICE NormSum<kNorm> norm() const {
    return norm_;
  }

 private:
  using Opmath = typename NumberTraits<T>::Opmath;
  using Bits = typename NumberTraits<T>::Bits;

  Opmath factor_;
  Bits largest_ = 0;
  NormSum<kNorm> norm_;
};

/// Visits vectors: all threads of the block together.
template <bool kWrites, typename T, typename Visitor, typename Block>
AMPCAST_DEVICE inline void visit_vectors(
    const Block& block,
    Vector<T>* vectors,
    uint32_t count,
    bool writes,
    Visitor& visitor) {
  constexpr uint32_t kAtOnce = sizeof(T) == 2 ? 2 : 4; // what registers hold, when widened
  for_each_vector<kAtOnce>(block, vectors, count, [&](uint32_t index, Vector<T>& vector) {
    AMPCAST_UNROLL
    for (int number = 0; number < Vector<T>::kNumel; number += Visitor::kParts) {
      visitor(vector.numbers + number);
    }
    if (kWrites && writes) {
      vectors[index] = vector;
    }
  });
}

/// Visits `numel` numbers at `numbers`: all threads of the block together.
template <bool kWrites, typename T, typename Visitor, typename Block>
AMPCAST_DEVICE inline void visit_numbers(
    const Block& block,
    T* numbers,
    uint32_t numel,
    bool writes,
    Visitor& visitor) {
  constexpr uint32_t kParts = Visitor::kParts;
  const uint32_t before = numel_before_alignment(numbers, numel);
  const Parts parts(before % kParts == 0 ? before : numel, numel, Vector<T>::kNumel);
  visit_vectors<kWrites>(block, reinterpret_cast<Vector<T>*>(numbers + parts.head), parts.vectors, writes, visitor);
  AMPCAST_NO_UNROLL
  for (uint32_t i = block.thread() * kParts; i < parts.edges; i += block.threads() * kParts) {
    T* const edge = numbers + parts.edge(i);
    T loaded[kParts];
    AMPCAST_UNROLL
    for (uint32_t part = 0; part < kParts; ++part) {
      loaded[part] = edge[part];
    }
    visitor(loaded);
    AMPCAST_UNROLL
    for (uint32_t part = 0; part < kParts && kWrites && writes; ++part) {
      edge[part] = loaded[part];
    }
  }
}

/// The sum over all threads of the block, in an order that depends on nothing but their number; for thread 0 alone. A block
/// calls this once.
template <Norm kNorm, typename Block>
AMPCAST_DEVICE inline NormSum<kNorm> sum_of_block(const Block& block, NormSum<kNorm> sum) {
  const auto sum_of_warp = [&block](NormSum<kNorm> own) {
    for (uint32_t offset = kWarp / 2; offset > 0; offset /= 2) {
      own.add(block.shuffle_down(own.sum(), offset));
    }
    return own;
  };
  sum = sum_of_warp(sum);
  if (block.thread() % kWarp == 0) {
    block.shared()[block.thread() / kWarp] = sum.sum();
  }
  block.sync();
  NormSum<kNorm> of_warps;
  if (block.thread() < block.threads() / kWarp) {
    of_warps.add(block.shared()[block.thread()]);
  }
  return sum_of_warp(of_warps);
}

/// Visits all numbers of a table: multiplies them, writes the products if `kWrites` and the factor is not 1, tells of Inf and
/// NaN in them, and takes their norm. Where nothing is to be found, a factor of 1 reads nothing.
template <typename T, bool kWrites, Norm kNorm, typename Block, typename Table>
AMPCAST_DEVICE inline void visit_gradients(const Block& block, const Table& table, const GradientPass& pass) {
  const float factor = pass.factor.load();
  const bool writes = factor != 1.0f;
  if (!writes && pass.found_inf == nullptr && kNorm == Norm::kNone) {
    return;
  }
  Multiply<T, kNorm> multiply(factor);
  AMPCAST_NO_UNROLL
  for (uint32_t index = block.index(); index < table.chunks(); index += block.blocks()) {
    const auto chunk = table.chunk(index);
    visit_numbers<kWrites>(block, static_cast<T*>(chunk.data[0]) + chunk.begin, chunk.numel, writes, multiply);
  }
  if (pass.found_inf != nullptr && block.any(multiply.found_inf()) && block.thread() == 0) {
    block.store(pass.found_inf, 1.0f);
  }
  if constexpr (kNorm != Norm::kNone) {
    const NormSum<kNorm> sum = sum_of_block(block, multiply.norm());
    if (block.thread() == 0) {
      pass.partial_norms[block.index()] = sum.sum();
    }
  }
}

/// Sets `norm` to the norm whose `count` parts are `partial_norms`; for a grid of one block.
template <Norm kNorm, typename Block>
AMPCAST_DEVICE inline void finish_norm(const Block& block, const double* partial_norms, uint32_t count, float* norm) {
  NormSum<kNorm> sum;
  AMPCAST_NO_UNROLL
  for (uint32_t i = block.thread(); i < count; i += block.threads()) {
    sum.add(partial_norms[i]);
  }
  sum = sum_of_block(block, sum);
  if (block.thread() == 0) {
    *norm = sum.norm();
  }
}

} // namespace ampcast::scaler::cuda
