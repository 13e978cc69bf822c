// The bodies of the CUDA kernels, run on the host by the block simulator and held against the CPU kernels.

#include <ampcast/ops.h>

#include "scaler/cuda/copy_cast_body.h"
#include "scaler/cuda/gradient_body.h"
#include "scaler/gradient_dtype.h"

#include <ATen/core/grad_mode.h>
#include <torch/types.h>

#include "block_simulator.h"
#include "catch2_compat.h"
#include "gradient_cases.h"
#include "read_only_memory.h"

#include <cmath>
#include <limits>
#include <map>

using namespace ampcast::scaler;
using namespace gradient_cases;
using block_simulator::Grid;
using block_simulator::SimulatedBlock;
using cuda::Factor;
using cuda::GradientPass;
using cuda::Norm;

namespace {

constexpr int kRows = 5; // of a table: few, so that lists take several launches
using GradientTable = cuda::TensorTable<1, kRows>;
using PairTable = cuda::TensorTable<2, kRows>;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr Grid kGrid{2, 64}; // each thread is one of the operating system
const std::vector<int64_t> kBodySizes = {1, 2, 7, 8, 9, 31, 33, 1001, 8193};
#else
constexpr Grid kGrid{3, 256};
const std::vector<int64_t> kBodySizes = {1,  2,  3,   7,    8,    9,    15,   16,   17,   31,
                                         32, 33, 257, 1001, 4095, 4097, 8191, 8193, 20001};
#endif

uint32_t seed_of_order = 1;

void launch(Grid grid, const std::function<void(const SimulatedBlock&)>& body) {
  static std::map<uint32_t, std::unique_ptr<block_simulator::Scheduler>> schedulers; // their stacks are worth keeping
  auto& scheduler = schedulers[seed_of_order];
  if (!scheduler) {
    scheduler = block_simulator::make_scheduler(seed_of_order);
  }
  block_simulator::launch(*scheduler, grid, body);
}

/// Calls `operation` with a number of the C++ type of `real`.
template <typename Operation>
void with_number(RealType real, const Operation& operation) {
  switch (real) {
    case RealType::kFloat32:
      return operation(float{});
    case RealType::kFloat64:
      return operation(double{});
    case RealType::kFloat16:
      return operation(Half{});
    default:
      return operation(BFloat16{});
  }
}

RealType real_of(const at::Tensor& tensor) {
  return gradient_dtype(tensor.scalar_type())->real;
}

int parts_of(const at::Tensor& tensor) {
  return gradient_dtype(tensor.scalar_type())->parts;
}

/// The tables that hold all of `grads`, which have one dtype and no gaps.
std::vector<GradientTable> tables_of(const std::vector<at::Tensor>& grads) {
  std::vector<GradientTable> tables;
  for (const at::Tensor& grad : grads) {
    if (tables.empty() || tables.back().is_full()) {
      tables.emplace_back(cuda::kChunkBytes / size_of(real_of(grad)));
    }
    if (grad.numel() != 0) {
      tables.back().append({const_cast<void*>(grad.const_data_ptr())}, grad.numel() * parts_of(grad));
    }
  }
  return tables;
}

template <bool kWrites, Norm kNorm>
void simulate(const std::vector<at::Tensor>& grads, GradientPass pass, Grid grid = kGrid) {
  for (const GradientTable& table : tables_of(grads)) {
    with_number(real_of(grads[0]), [&](auto number) {
      launch(grid, [&](const SimulatedBlock& block) {
        cuda::visit_gradients<decltype(number), kWrites, kNorm>(block, table, pass);
      });
    });
    pass.partial_norms += kNorm == Norm::kNone ? 0 : grid.blocks;
  }
}

/// What `unscale_` and `check_finite_` do; returns whether found_inf was set.
template <bool kWrites>
bool unscale(const std::vector<at::Tensor>& grads, float inv_scale) {
  float found_inf = 0;
  simulate<kWrites, Norm::kNone>(grads, {{&inv_scale, nullptr, 0}, &found_inf, nullptr});
  return found_inf == 1;
}

/// What `unscale_norm_` does; returns the norm.
template <Norm kNorm>
float unscale_norm(const std::vector<at::Tensor>& grads, float inv_scale, Grid grid = kGrid) {
  float found_inf = 0;
  float norm = kNaN;
  std::vector<double> partial_norms(tables_of(grads).size() * grid.blocks, kNaN);
  simulate<true, kNorm>(grads, {{&inv_scale, nullptr, 0}, &found_inf, partial_norms.data()}, grid);
  launch({1, grid.threads}, [&](const SimulatedBlock& block) {
    cuda::finish_norm<kNorm>(block, partial_norms.data(), static_cast<uint32_t>(partial_norms.size()), &norm);
  });
  return norm;
}

/// `size` numbers of `dtype` that start `offset` elements into their storage, which is filled up to `size + 16`.
at::Tensor random_view(at::ScalarType dtype, int64_t size, int64_t offset) {
  return torch::randn({size + 16}).mul(8).exp().mul(torch::randn({size + 16})).to(dtype).narrow(0, offset, size);
}

at::Tensor whole_storage(const at::Tensor& view) {
  return view.as_strided({static_cast<int64_t>(view.storage().nbytes() / view.itemsize())}, {1}, 0);
}

/// A copy at the same offset in a storage of its own.
at::Tensor clone_with_storage(const at::Tensor& view) {
  return whole_storage(view).clone().as_strided(view.sizes(), view.strides(), view.storage_offset());
}

bool cpu_unscale(const std::vector<at::Tensor>& grads, float inv_scale) {
  at::Tensor found_inf = scalar(0);
  ampcast::unscale_(grads, found_inf, scalar(inv_scale));
  return found_inf.item<float>() == 1.0F;
}

float cpu_norm(const std::vector<at::Tensor>& grads, float inv_scale, double norm_type) {
  at::Tensor found_inf = scalar(0);
  at::Tensor norm = scalar(0);
  ampcast::unscale_norm_(grads, found_inf, scalar(inv_scale), norm, norm_type);
  return norm.item<float>();
}

float ulps_apart(float a, float b) {
  return std::fabs(a - b) / (std::nextafter(std::fabs(b), std::numeric_limits<float>::infinity()) - std::fabs(b));
}

} // namespace

TEST_CASE(
    "the CUDA body of unscale_ gives the CPU's bits and verdict for every dtype, size, alignment and inverse scale") {
  torch::manual_seed(0);
  for (const at::ScalarType dtype : kDtypes) {
    for (const int64_t size : kBodySizes) {
      for (const float inv_scale : {1.0F, 0x1p-16F, 0.3F, 0x1p20F}) {
        const int64_t offset = size % 9;
        CAPTURE(dtype, size, offset, inv_scale);
        const at::Tensor simulated = random_view(dtype, size, offset);
        const at::Tensor expected = clone_with_storage(simulated);
        const bool found = unscale<true>({simulated}, inv_scale);
        CHECK(found == cpu_unscale({expected}, inv_scale));
        CHECK(same_bits(whole_storage(simulated), whole_storage(expected)));
      }
    }
  }
}

TEST_CASE("the CUDA body of unscale_ takes every alignment of every dtype") {
  torch::manual_seed(1);
  for (const at::ScalarType dtype : kDtypes) {
    for (int64_t offset = 0; offset < 9; ++offset) {
      CAPTURE(dtype, offset);
      const at::Tensor simulated = random_view(dtype, 300, offset);
      const at::Tensor expected = clone_with_storage(simulated);
      unscale<true>({simulated}, 0.3F);
      cpu_unscale({expected}, 0.3F);
      CHECK(same_bits(whole_storage(simulated), whole_storage(expected)));
    }
  }
}

TEST_CASE("the CUDA bodies find one Inf or NaN in the first, the last, a peeled and any other place") {
  for (const at::ScalarType dtype : kRealDtypes) {
    for (const int64_t place : {0, 1, 2, 7, 8, 500, 995, 999, 1000}) {
      for (const float bad : {kInf, -kInf, kNaN}) {
        CAPTURE(dtype, place, bad);
        at::Tensor grad = torch::ones({1004}).to(dtype).narrow(0, 3, 1001);
        CHECK_FALSE(unscale<false>({grad}, 0.5F));
        grad[place] = bad;
        CHECK(unscale<false>({grad}, 0.5F));
        CHECK(unscale<true>({grad}, 0.5F));
      }
    }
  }
}

TEST_CASE("the CUDA body of unscale_ flags a product that rounds to Inf, and none that does not") {
  for (const float number : {65519.996F, 65520.0F}) {
    const at::Tensor grad = torch::full({40}, 1.0F, at::kHalf);
    CHECK(unscale<false>({grad}, number) == (number >= 65520.0F));
  }
}

TEST_CASE("the CUDA bodies visit lists of many tensors, empty ones among them, in tables of a few") {
  torch::manual_seed(2);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    std::vector<at::Tensor> simulated;
    std::vector<at::Tensor> expected;
    for (int64_t i = 0; i < 23; ++i) {
      simulated.push_back(random_view(dtype, i * i * 13 % 4999, i % 5));
      expected.push_back(clone_with_storage(simulated.back()));
    }
    const bool found = unscale<true>(simulated, 0x1p-3F);
    CHECK(found == cpu_unscale(expected, 0x1p-3F));
    for (size_t i = 0; i < simulated.size(); ++i) {
      CAPTURE(dtype, i);
      CHECK(same_bits(whole_storage(simulated[i]), whole_storage(expected[i])));
    }
  }
}

TEST_CASE("the CUDA bodies multiply and flag denormal numbers as the CPU does") {
  for (const at::ScalarType dtype : kRealDtypes) {
    const float smallest = dtype == at::kHalf ? 0x1p-24F : 0x1p-133F;
    at::Tensor simulated = torch::arange(1, 200).mul(smallest).to(dtype);
    at::Tensor expected = simulated.clone();
    CHECK_FALSE(unscale<true>({simulated}, 0.3F));
    cpu_unscale({expected}, 0.3F);
    CHECK(same_bits(simulated, expected));
  }
}

TEST_CASE("the CUDA bodies write nothing to check, and nothing when the inverse scale is 1 or no clipping is due") {
  const ReadOnlyMemory memory(torch::ones({5000}));
  CHECK_FALSE(unscale<false>({memory.tensor()}, 0.5F));
  CHECK_FALSE(unscale<true>({memory.tensor()}, 1.0F));
  const float norm = 3;
  simulate<true, Norm::kNone>({memory.tensor()}, {{nullptr, &norm, 5.0F}, nullptr, nullptr});
}

TEST_CASE("the CUDA body of clip_ gives the CPU's bits") {
  torch::manual_seed(3);
  for (const at::ScalarType dtype : kDtypes) {
    for (const float norm : {3.0F, 0.5F, kInf, kNaN}) {
      CAPTURE(dtype, norm);
      const at::Tensor simulated = random_view(dtype, 1001, 1);
      const at::Tensor expected = clone_with_storage(simulated);
      simulate<true, Norm::kNone>({simulated}, {{nullptr, &norm, 1.0F}, nullptr, nullptr});
      ampcast::clip_({expected}, scalar(norm), 1.0);
      CHECK(same_bits(simulated, expected));
    }
  }
}

TEST_CASE("the CUDA body's norms are the CPU's within 2 ulp, the inf-norm to the bit, and no order changes a bit") {
  torch::manual_seed(4);
  for (const at::ScalarType dtype : kDtypes) {
    std::vector<at::Tensor> grads;
    for (const int64_t size : {1, 33, 1001, 5000}) {
      grads.push_back(torch::randn({size + 1}).to(dtype).narrow(0, 1, size));
    }
    const auto clones = [&grads] {
      std::vector<at::Tensor> copies;
      std::transform(grads.begin(), grads.end(), std::back_inserter(copies), clone_with_storage);
      return copies;
    };
    CAPTURE(dtype);
    const bool is_complex = parts_of(grads[0]) == 2;
    const float two = unscale_norm<Norm::kTwo>(clones(), 0.3F);
    const float largest =
        is_complex ? unscale_norm<Norm::kComplexInf>(clones(), 0.3F) : unscale_norm<Norm::kInf>(clones(), 0.3F);
    CHECK(ulps_apart(two, cpu_norm(clones(), 0.3F, 2)) <= 2);
    CHECK(largest == cpu_norm(clones(), 0.3F, kInf));
    for (seed_of_order = 2; seed_of_order < 4; ++seed_of_order) {
      CHECK(unscale_norm<Norm::kTwo>(clones(), 0.3F) == two);
    }
    seed_of_order = 1;
  }
}

TEST_CASE("the CUDA body's norms do not overflow for finite gradients, and tell of Inf and NaN") {
  CHECK(unscale_norm<Norm::kTwo>({torch::full({4}, 1e30F)}, 1.0F) == 2e30F);
  CHECK(unscale_norm<Norm::kTwo>({torch::full({4}, 1e-30F)}, 1.0F) == 2e-30F);
  for (const auto& [bad, is_nan] : {std::pair(kInf, false), std::pair(kNaN, true)}) {
    at::Tensor grad = torch::ones({300});
    grad[100] = bad;
    CHECK(std::isnan(unscale_norm<Norm::kTwo>({grad}, 1.0F)) == is_nan);
    CHECK(std::isnan(unscale_norm<Norm::kInf>({grad}, 1.0F)) == is_nan);
    CHECK_FALSE(std::isfinite(unscale_norm<Norm::kInf>({grad}, 1.0F)));
  }
  CHECK(unscale_norm<Norm::kTwo>({torch::zeros({0})}, 1.0F) == 0);
}

TEST_CASE("the CUDA body of copy_cast_ gives the CPU's bits for every pair of dtypes, size and alignment") {
  torch::manual_seed(5);
  for (const at::ScalarType to : kRealDtypes) {
    for (const at::ScalarType from : kRealDtypes) {
      for (const int64_t size : {1, 9, 31, 1001, 9001}) {
        for (const auto& [dst_offset, src_offset] :
             {std::pair(0, 0), std::pair(1, 1), std::pair(3, 5), std::pair(8, 4)}) {
          CAPTURE(to, from, size, dst_offset, src_offset);
          const at::Tensor src = random_view(from, size, src_offset);
          const at::Tensor dst = random_view(to, size, dst_offset);
          const at::Tensor expected = clone_with_storage(dst);
          PairTable table(cuda::kChunkBytes / std::max(size_of(real_of(dst)), size_of(real_of(src))));
          table.append({dst.mutable_data_ptr(), const_cast<void*>(src.const_data_ptr())}, size);
          with_number(real_of(dst), [&](auto dst_number) {
            with_number(real_of(src), [&](auto src_number) {
              launch(kGrid, [&](const SimulatedBlock& block) {
                cuda::copy_cast<decltype(dst_number), decltype(src_number)>(block, table);
              });
            });
          });
          ampcast::copy_cast_({expected}, {src});
          CHECK(same_bits(whole_storage(dst), whole_storage(expected)));
        }
      }
    }
  }
}

TEST_CASE("a table cuts tensors into chunks that cover each number once, up to its capacity") {
  GradientTable table(100);
  std::vector<uint64_t> sizes = {1, 100, 101, 250, 99};
  std::vector<char> data(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    CHECK_FALSE(table.is_full());
    table.append({&data[i]}, sizes[i]);
  }
  CHECK(table.is_full());
  std::vector<uint64_t> covered(sizes.size());
  for (uint32_t index = 0; index < table.chunks(); ++index) {
    const auto chunk = table.chunk(index);
    const size_t row = static_cast<char*>(chunk.data[0]) - data.data();
    CHECK(chunk.begin == covered[row]);
    covered[row] += chunk.numel;
  }
  CHECK(covered == sizes);
}

TEST_CASE("the largest tables fit into a kernel's arguments and hold hundreds of tensors") {
  constexpr int kLarge = cuda::capacity_of_table(32764, 1);
  constexpr int kSmall = cuda::capacity_of_table(4096, 2);
  CHECK(kLarge > 2000);
  CHECK(sizeof(cuda::TensorTable<1, kLarge>) + sizeof(GradientPass) <= 32764);
  CHECK(kSmall > 160);
  CHECK(sizeof(cuda::TensorTable<2, kSmall>) <= 4096);
}
