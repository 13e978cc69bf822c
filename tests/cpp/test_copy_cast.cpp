#include <ampcast/ops.h>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/types.h>

#include "catch2_compat.h"
#include "gradient_cases.h"

#include <cmath>

using Catch::Matchers::ContainsSubstring;
using namespace gradient_cases;

namespace {

struct Dtypes {
  at::ScalarType dst;
  at::ScalarType src;
};

/// Every pair that can be converted: real to real, complex to complex.
std::vector<Dtypes> dtype_pairs() {
  std::vector<Dtypes> pairs;
  for (const at::ScalarType dst : kDtypes) {
    for (const at::ScalarType src : kDtypes) {
      if (c10::isComplexType(dst) == c10::isComplexType(src)) {
        pairs.push_back({dst, src});
      }
    }
  }
  return pairs;
}

/// Numbers of all magnitudes that a float32 holds, denormals included, and some beyond for float64; a few are not finite.
at::Tensor numbers(at::IntArrayRef sizes, at::ScalarType dtype) {
  const at::ScalarType wide = c10::isComplexType(dtype) ? at::kComplexDouble : at::kDouble;
  at::Tensor wide_numbers = torch::randn(sizes, wide);
  const at::Tensor real = real_view(wide_numbers);
  real.mul_(torch::randn(real.sizes(), at::kDouble).mul_(40).exp_());
  const at::Tensor flat = real.view({-1});
  for (const double value : {static_cast<double>(kInf), -static_cast<double>(kInf), static_cast<double>(kNaN)}) {
    flat.masked_fill_(torch::rand(flat.sizes()) < 0.01, value);
  }
  return wide_numbers.to(dtype);
}

/// What torch writes to a tensor of `dtype`, without gaps.
at::Tensor converted(const at::Tensor& src, at::ScalarType dtype) {
  return torch::empty(src.sizes(), dtype).copy_(src);
}

/// Strides and storage of `layout` with `values` written where its elements are.
at::Tensor filled(const Layout& layout, const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  return layout.view.copy_(values);
}

/// Whether all of the storage but the elements of the view is as it was.
bool gaps_are_unchanged(const Layout& layout, const at::Tensor& before) {
  const auto view_of = [&layout](const at::Tensor& storage) {
    return storage.as_strided(layout.view.sizes(), layout.view.strides(), layout.view.storage_offset());
  };
  const at::Tensor after = layout.storage.clone();
  view_of(after).copy_(view_of(before));
  return same_bits(after, before);
}

} // namespace

TEST_CASE("copy_cast_ writes the bits of torch's copy_, for every pair of dtypes and size") {
  torch::manual_seed(0);
  for (const auto [dst_dtype, src_dtype] : dtype_pairs()) {
    for (const int64_t size : kSizes) {
      CAPTURE(dst_dtype, src_dtype, size);
      const at::Tensor src = numbers({size}, src_dtype);
      const at::Tensor before = src.clone();
      const at::Tensor dst = torch::zeros({size}, dst_dtype);
      ampcast::copy_cast_({dst}, {src});
      CHECK(same_bits(dst, converted(src, dst_dtype)));
      CHECK(same_bits(src, before));
    }
  }
}

TEST_CASE("copy_cast_ converts every number of a 16-bit dtype") {
  const at::Tensor all = torch::arange(1 << 16, at::kInt).to(at::kShort);
  for (const at::ScalarType src_dtype : {at::kHalf, at::kBFloat16}) {
    for (const at::ScalarType dst_dtype : kRealDtypes) {
      CAPTURE(dst_dtype, src_dtype);
      const at::Tensor src = all.view(src_dtype);
      const at::Tensor dst = torch::zeros({1 << 16}, dst_dtype);
      ampcast::copy_cast_({dst}, {src});
      CHECK(same_bits(dst, converted(src, dst_dtype)));
    }
  }
}

TEST_CASE("copy_cast_ rounds to nearest even, overflows to Inf, and keeps denormals, signs and NaN") {
  struct Edge {
    at::ScalarType dtype;
    float source;
    float expected;
  };
  const std::vector<Edge> edges = {
      {at::kHalf, 65519.0F, 65504.0F},    {at::kHalf, 65520.0F, kInf},
      {at::kHalf, 0x1p-24F, 0x1p-24F},    {at::kHalf, 0x1p-25F, 0.0F},
      {at::kHalf, 0x1.8p-24F, 0x1p-23F},  {at::kBFloat16, 0x1.fefffep127F, 0x1.fep127F},
      {at::kBFloat16, 0x1.ffp127F, kInf}, {at::kBFloat16, 0x1p-133F, 0x1p-133F},
      {at::kBFloat16, 0x1.01p0F, 1.0F},   {at::kBFloat16, 0x1.03p0F, 0x1.04p0F},
      {at::kBFloat16, -0.0F, -0.0F},      {at::kHalf, -kInf, -kInf},
      {at::kBFloat16, kNaN, kNaN},
  };
  for (const Edge& edge : edges) {
    for (const int64_t size : {1, 100}) {
      CAPTURE(edge.dtype, edge.source, size);
      const at::Tensor dst = torch::ones({size}, edge.dtype);
      ampcast::copy_cast_({dst}, {torch::full({size}, edge.source)});
      CHECK(same_bits(dst.to(at::kFloat), torch::full({size}, edge.expected)));
    }
  }
}

TEST_CASE("copy_cast_ takes storage offsets that no vector is aligned to, and writes nothing beside its elements") {
  torch::manual_seed(1);
  for (const auto [dst_dtype, src_dtype] : dtype_pairs()) {
    for (int64_t offset = 0; offset < 4; ++offset) {
      CAPTURE(dst_dtype, src_dtype, offset);
      const at::Tensor src = numbers({150}, src_dtype).narrow(0, 3 - offset, 133);
      const at::Tensor storage = torch::zeros({150}, dst_dtype);
      ampcast::copy_cast_({storage.narrow(0, offset, 133)}, {src});
      const at::Tensor expected = torch::zeros({150}, dst_dtype);
      expected.narrow(0, offset, 133).copy_(src);
      CHECK(same_bits(storage, expected));
    }
  }
}

TEST_CASE("copy_cast_ handles every layout on both sides and leaves the gaps alone") {
  torch::manual_seed(2);
  for (const auto [dst_dtype, src_dtype] : dtype_pairs()) {
    const std::vector<Layout> sources = layouts(src_dtype);
    const std::vector<Layout> destinations = layouts(dst_dtype);
    for (size_t i = 0; i < sources.size(); ++i) {
      CAPTURE(dst_dtype, src_dtype, sources[i].name);
      const at::Tensor src = filled(sources[i], numbers(sources[i].view.sizes(), src_dtype));
      const at::Tensor expected = converted(src, dst_dtype);
      const Layout& dst = destinations[i];
      const at::Tensor before = dst.storage.clone();
      ampcast::copy_cast_({dst.view}, {src.contiguous()});
      CHECK(same_bits(dst.view, expected));
      dst.view.zero_();
      ampcast::copy_cast_({dst.view}, {src});
      CHECK(same_bits(dst.view, expected));
      CHECK(gaps_are_unchanged(dst, before));
      const at::Tensor contiguous = torch::zeros(src.sizes(), dst_dtype);
      ampcast::copy_cast_({contiguous}, {src});
      CHECK(same_bits(contiguous, expected));
    }
  }
}

TEST_CASE("copy_cast_ reads a source that is expanded or requires grad, and copies a tensor to itself") {
  const at::Tensor dst = torch::zeros({5, 40}, at::kBFloat16);
  ampcast::copy_cast_({dst}, {torch::arange(5, at::kFloat).unsqueeze(1).expand({5, 40}).requires_grad_()});
  CHECK(dst.eq(torch::arange(5).unsqueeze(1)).all().item<bool>());
  ampcast::copy_cast_({dst}, {torch::arange(40, at::kFloat).expand({5, 40})});
  CHECK(dst.eq(torch::arange(40)).all().item<bool>());
  ampcast::copy_cast_({dst}, {dst});
  CHECK(dst.eq(torch::arange(40)).all().item<bool>());
  CHECK_FALSE(dst.requires_grad());
}

TEST_CASE(
    "copy_cast_ gives the same bits with one thread and with two, for dtypes, layouts and sizes mixed in one list") {
  const int threads = at::get_num_threads();
  torch::manual_seed(3);
  std::vector<at::Tensor> src; // enough elements for two threads, cut inside tensors of every layout
  std::vector<at::ScalarType> dtypes;
  for (const int64_t size : {1, 77, 30'001, 400'003, 0, 250'000, 99}) {
    for (const auto [dst_dtype, src_dtype] : dtype_pairs()) {
      src.push_back(numbers({size / 8}, src_dtype));
      src.push_back(numbers({size / 16, 2}, src_dtype).select(1, 1));
      dtypes.insert(dtypes.end(), 2, dst_dtype);
    }
  }
  src.push_back(numbers({700, 500}, at::kFloat).narrow(1, 7, 450).t());
  dtypes.push_back(at::kHalf);
  for (const int count : {1, 2}) {
    CAPTURE(count);
    at::set_num_threads(count);
    std::vector<at::Tensor> dst;
    for (size_t i = 0; i < src.size(); ++i) {
      dst.push_back(torch::zeros(src[i].sizes(), dtypes[i]));
    }
    ampcast::copy_cast_(dst, src);
    for (size_t i = 0; i < src.size(); ++i) {
      CAPTURE(i);
      CHECK(same_bits(dst[i], converted(src[i], dtypes[i])));
    }
  }
  at::set_num_threads(threads);
}

TEST_CASE("copy_cast_ converts tensors too large for the caches, aligned or not") {
  torch::manual_seed(4);
  for (const auto& [dst_dtype, src_dtype] :
       std::vector<Dtypes>{{at::kBFloat16, at::kFloat}, {at::kHalf, at::kBFloat16}, {at::kFloat, at::kHalf}}) {
    const at::Tensor src = torch::randn({(20 << 20) + 5}).to(src_dtype);
    for (const int64_t offset : {0, 3}) {
      CAPTURE(dst_dtype, src_dtype, offset);
      const at::Tensor dst = torch::zeros({src.numel() + 4}, dst_dtype);
      ampcast::copy_cast_({dst.narrow(0, offset, src.numel())}, {src});
      CHECK(dst.narrow(0, offset, src.numel()).equal(converted(src, dst_dtype)));
      CHECK(dst.narrow(0, 0, offset).eq(0).all().item<bool>());
      CHECK(dst.narrow(0, offset + src.numel(), 4 - offset).eq(0).all().item<bool>());
    }
  }
}

TEST_CASE("copy_cast_ takes empty lists") {
  CHECK_NOTHROW(ampcast::copy_cast_({}, {}));
}

TEST_CASE("copy_cast_ moves the version counter of each destination by one, and of no source") {
  const std::vector<at::Tensor> dst = {torch::zeros({9}), torch::zeros({0}), torch::zeros({4, 4}).t()};
  const std::vector<at::Tensor> src = {torch::ones({9}), torch::ones({0}), torch::ones({4, 4})};
  ampcast::copy_cast_(dst, src);
  for (size_t i = 0; i < dst.size(); ++i) {
    CAPTURE(i);
    CHECK(dst[i]._version() == 1);
    CHECK(src[i]._version() == 0);
  }
}

TEST_CASE("copy_cast_ writes inference tensors, which have no version counter") {
  const c10::InferenceMode inference;
  const at::Tensor dst = torch::zeros({9}, at::kHalf);
  ampcast::copy_cast_({dst}, {torch::ones({9})});
  CHECK(dst.eq(1).all().item<bool>());
}

TEST_CASE("copy_cast_ makes a backward pass that saved the old value raise") {
  at::Tensor parameter = torch::ones({3}, torch::requires_grad());
  const at::Tensor loss = (parameter * parameter).sum();
  {
    const at::NoGradGuard no_grad;
    ampcast::copy_cast_({parameter}, {torch::zeros({3}, at::kDouble)});
  }
  CHECK(parameter.eq(0).all().item<bool>());
  CHECK_THROWS_WITH(loss.backward(), ContainsSubstring("modified by an inplace operation"));
}

TEST_CASE("copy_cast_ writes a leaf that requires grad only where grad mode is off") {
  const at::Tensor leaf = torch::ones({3}, torch::requires_grad());
  const at::Tensor src = torch::zeros({3}, at::kHalf);
  CHECK_THROWS_WITH(
      ampcast::copy_cast_({leaf}, {src}),
      ContainsSubstring("copy_cast_: `dst[0]` must not be a leaf that requires grad"));
  CHECK(leaf.eq(1).all().item<bool>());
  const at::NoGradGuard no_grad;
  ampcast::copy_cast_({leaf}, {src});
  CHECK(leaf.eq(0).all().item<bool>());
}

TEST_CASE("copy_cast_ refuses a bad argument, naming the rule, and writes nothing") {
  struct Refusal {
    at::Tensor dst;
    at::Tensor src;
    const char* message;
  };
  const at::Tensor good = torch::ones({3});
  const at::Tensor complex = good.to(at::kComplexFloat);
  const at::Tensor sparse = good.to_sparse();
  const at::Tensor meta = good.to(at::kMeta);
  const std::vector<Refusal> refusals = {
      {at::Tensor(), good, "`dst[1]` must be a tensor, got an undefined one"},
      {good, at::Tensor(), "`src[1]` must be a tensor, got an undefined one"},
      {sparse, good, "copy_cast_: `dst[1]` must be dense, got layout Sparse"},
      {good, sparse, "copy_cast_: `src[1]` must be dense, got layout Sparse"},
      {good.to(at::kInt), good,
       "`dst[1]` must be float32, float64, float16, bfloat16, complex64 or complex128, got Int"},
      {good, good.to(at::kFloat8_e5m2),
       "`src[1]` must be float32, float64, float16, bfloat16, complex64 or complex128"},
      {complex, good, "`src[1]` must be complex as its destination is, ComplexFloat, got Float"},
      {good, complex, "`src[1]` must be real as its destination is, Float, got ComplexFloat"},
      {meta, good, "`dst[1]` must be on the device of `dst[0]`, cpu, got meta"},
      {good, meta, "`src[1]` must be on the device of `dst[0]`, cpu, got meta"},
      {good, torch::ones({1}), "`src[1]` must have the shape of its destination, [3], got [1]; expand it first"},
      {torch::ones({2, 3}), torch::ones({3, 2}), "`src[1]` must have the shape of its destination, [2, 3], got [3, 2]"},
      {torch::ones({1}).expand({3}), good, "`dst[1]` must not overlap itself in memory"},
      {torch::ones({3}, torch::requires_grad()), good, "`dst[1]` must not be a leaf that requires grad"},
  };
  for (const Refusal& refusal : refusals) {
    const at::Tensor first = torch::full({3}, kInf);
    CHECK_THROWS_WITH(
        ampcast::copy_cast_({first, refusal.dst}, {good, refusal.src}), ContainsSubstring(refusal.message));
    CHECK(first.eq(kInf).all().item<bool>());
    CHECK(first._version() == 0);
  }
  const at::Tensor first = torch::full({3}, kInf);
  CHECK_THROWS_WITH(
      ampcast::copy_cast_({first}, {}), ContainsSubstring("`src` must have as many tensors as `dst`, 1, got 0"));
  CHECK_THROWS_WITH(
      ampcast::copy_cast_({first}, {good, good}),
      ContainsSubstring("`src` must have as many tensors as `dst`, 1, got 2"));
  CHECK(first.eq(kInf).all().item<bool>());
}
