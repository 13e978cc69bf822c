#include <ampcast/ops.h>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <torch/types.h>

#include "catch2_compat.h"
#include "gradient_cases.h"
#include "read_only_memory.h"

#include <cmath>

using Catch::Matchers::ContainsSubstring;
using namespace gradient_cases;

namespace {

/// Runs `unscale_` on `grads` and returns whether it set found_inf.
bool unscale(const std::vector<at::Tensor>& grads, float inv_scale) {
  at::Tensor found_inf = scalar(0);
  ampcast::unscale_(grads, found_inf, scalar(inv_scale));
  return found_inf.item<float>() == 1.0F;
}

} // namespace

TEST_CASE("unscale_ writes the rounded product and flags what it wrote, for every dtype, size and inverse scale") {
  torch::manual_seed(0);
  for (const at::ScalarType dtype : kDtypes) {
    for (const int64_t size : kSizes) {
      for (const float inv_scale : kInvScales) {
        CAPTURE(dtype, size, inv_scale);
        at::Tensor grad = torch::randn({size}).to(dtype);
        const at::Tensor expected = unscaled(grad, inv_scale);
        const bool found = unscale({grad}, inv_scale);
        CHECK(same_bits(grad, expected));
        CHECK(found == !all_finite(expected));
      }
    }
  }
}

TEST_CASE("unscale_ writes torch's bits") {
  torch::manual_seed(1);
  for (const at::ScalarType dtype : kRealDtypes) {
    for (const float inv_scale : {0x1p-16F, 0.3F, 0x1p20F}) {
      CAPTURE(dtype, inv_scale);
      at::Tensor ours = (torch::randn({1001}) * torch::randn({1001}).mul(12).exp()).to(dtype);
      at::Tensor theirs = ours.clone();
      at::Tensor found_inf = scalar(0);
      unscale({ours}, inv_scale);
      at::_amp_foreach_non_finite_check_and_unscale_({theirs}, found_inf, scalar(inv_scale));
      CHECK(same_bits(ours, theirs));
    }
  }
}

TEST_CASE("unscale_ finds one Inf or NaN wherever it stands, in either part of a complex number") {
  const std::vector<int64_t> places = {0, 1, 62, 63, 64, 500, 999, 1000};
  for (const at::ScalarType dtype : kDtypes) {
    for (const float value : {kInf, -kInf, kNaN}) {
      for (const int64_t place : places) {
        CAPTURE(dtype, value, place);
        at::Tensor grad = torch::ones({1001}, dtype);
        real_view(grad).flatten()[grad.is_complex() ? 2 * place + place % 2 : place] = value;
        const at::Tensor expected = unscaled(grad, 0.5F);
        CHECK(unscale({torch::ones({3}), grad, torch::ones({5})}, 0.5F));
        CHECK(same_bits(grad, expected));
      }
    }
  }
}

TEST_CASE("unscale_ flags a product that overflows though the gradient is finite, where torch does not") {
  const at::Tensor large = torch::full({100}, 1e30F);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kComplexFloat}) {
    CAPTURE(dtype);
    CHECK(unscale({large.to(dtype, /*non_blocking=*/false, /*copy=*/true)}, 1e10F));
  }
  CHECK_FALSE(unscale({large.to(at::kDouble)}, 1e10F));
  CHECK(unscale({torch::full({100}, 1e300, at::kDouble)}, 1e10F));
  at::Tensor found_inf = scalar(0);
  at::_amp_foreach_non_finite_check_and_unscale_({large.clone()}, found_inf, scalar(1e10F));
  CHECK(found_inf.item<float>() == 0.0F);
}

TEST_CASE("unscale_ flags a product that becomes Inf only when rounded to 16 bits, and none just below") {
  struct Edge {
    at::ScalarType dtype;
    float grad;
    float least_overflow;
  };
  // Halfway from the largest number to the next power of two, where rounding to even goes up.
  for (const Edge& edge : {Edge{at::kHalf, 32768.0F, 65520.0F}, Edge{at::kBFloat16, 0x1p127F, 0x1.ffp127F}}) {
    CAPTURE(edge.dtype);
    const float inv_scale = edge.least_overflow / edge.grad;
    at::Tensor overflows = torch::full({50}, edge.grad, edge.dtype);
    CHECK(unscale({overflows}, inv_scale));
    CHECK(overflows.isinf().all().item<bool>());
    at::Tensor stays = torch::full({50}, edge.grad, edge.dtype);
    CHECK_FALSE(unscale({stays}, std::nextafter(inv_scale, 0.0F)));
    CHECK(stays.eq(edge.dtype == at::kHalf ? 65504.0F : 0x1.fep127F).all().item<bool>());
  }
}

TEST_CASE("unscale_ keeps denormal results") {
  for (const at::ScalarType dtype : kRealDtypes) {
    CAPTURE(dtype);
    const double smallest_normal = dtype == at::kHalf ? 0x1p-14 : dtype == at::kDouble ? 0x1p-1022 : 0x1p-126;
    at::Tensor grad = torch::full({40}, smallest_normal, at::kDouble).to(dtype);
    CHECK_FALSE(unscale({grad}, 0.25F));
    CHECK(grad.to(at::kDouble).eq(smallest_normal / 4).all().item<bool>());
  }
}

TEST_CASE("unscale_ handles every layout and leaves the gaps alone") {
  torch::manual_seed(2);
  for (const at::ScalarType dtype : kDtypes) {
    for (const Layout& layout : layouts(dtype)) {
      CAPTURE(dtype, layout.name);
      const at::Tensor before = layout.storage.clone();
      const at::Tensor expected = unscaled(layout.view, 0.3F);
      CHECK_FALSE(unscale({layout.view}, 0.3F));
      CHECK(same_bits(layout.view, expected));
      at::Tensor after = layout.storage.clone();
      after.as_strided(layout.view.sizes(), layout.view.strides(), layout.view.storage_offset())
          .copy_(before.as_strided(layout.view.sizes(), layout.view.strides(), layout.view.storage_offset()));
      CHECK(same_bits(after, before));
    }
  }
}

TEST_CASE("unscale_ sees Inf in a tensor with gaps and none in the gaps") {
  at::Tensor storage = torch::ones({64, 10});
  at::Tensor view = storage.slice(1, 0, 10, 3);
  storage.select(1, 1).fill_(kInf);
  CHECK_FALSE(unscale({view}, 0.5F));
  view[63][3] = kInf;
  CHECK(unscale({view}, 0.5F));
}

TEST_CASE("unscale_ takes dtypes, layouts and sizes mixed in one list") {
  torch::manual_seed(3);
  std::vector<at::Tensor> grads;
  std::vector<at::Tensor> expected;
  for (const at::ScalarType dtype : kDtypes) {
    for (const Layout& layout : layouts(dtype)) {
      grads.push_back(layout.view);
      expected.push_back(unscaled(layout.view, 0.3F));
    }
  }
  CHECK_FALSE(unscale(grads, 0.3F));
  for (size_t i = 0; i < grads.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(grads[i], expected[i]));
  }
}

TEST_CASE("unscale_ gives the same bits with one thread and with two") {
  const int threads = at::get_num_threads();
  torch::manual_seed(4);
  std::vector<at::Tensor> grads; // enough elements for two threads, cut inside tensors of every layout
  for (const int64_t size : {1, 77, 30'001, 400'003, 5, 250'000, 99}) {
    grads.push_back(torch::randn({size}));
    grads.push_back(torch::randn({size, 2}).select(1, 1).to(at::kFloat));
  }
  grads.push_back(torch::randn({4000, 500}).narrow(1, 7, 450));
  for (const int count : {1, 2}) {
    CAPTURE(count);
    at::set_num_threads(count);
    std::vector<at::Tensor> copies;
    for (const at::Tensor& grad : grads) {
      copies.push_back(grad.clone(at::MemoryFormat::Preserve));
    }
    CHECK_FALSE(unscale(copies, 0.3F));
    for (size_t i = 0; i < grads.size(); ++i) {
      CAPTURE(i);
      CHECK(same_bits(copies[i], unscaled(grads[i], 0.3F)));
    }
    copies[6][400'002] = kNaN;
    CHECK(unscale(copies, 0.3F));
  }
  at::set_num_threads(threads);
}

TEST_CASE("unscale_ writes nothing when the inverse scale is 1") {
  for (const at::ScalarType dtype : kDtypes) {
    CAPTURE(dtype);
    const ReadOnlyMemory memory(torch::ones({1001}, dtype)); // a write would end the process
    CHECK_FALSE(unscale({memory.tensor(), memory.tensor().slice(0, 0, 1001, 3)}, 1.0F));
    const ReadOnlyMemory infinite(torch::full({1001}, kInf).to(dtype));
    CHECK(unscale({infinite.tensor()}, 1.0F));
  }
}

TEST_CASE("unscale_ never clears found_inf") {
  at::Tensor found_inf = scalar(1);
  ampcast::unscale_({torch::ones({9})}, found_inf, scalar(0.5F));
  CHECK(found_inf.item<float>() == 1.0F);
  ampcast::unscale_({}, found_inf, scalar(0.5F));
  CHECK(found_inf.item<float>() == 1.0F);
}

TEST_CASE("unscale_ writes a leaf that requires grad only where grad mode is off") {
  at::Tensor leaf = torch::ones({3}, torch::requires_grad());
  CHECK_THROWS_WITH(unscale({leaf}, 0.5F), ContainsSubstring("must not be a leaf that requires grad"));
  CHECK(leaf.eq(1).all().item<bool>());
  const at::NoGradGuard no_grad;
  CHECK_FALSE(unscale({leaf}, 0.5F));
  CHECK(leaf.eq(0.5).all().item<bool>());
}

TEST_CASE("unscale_ refuses a bad argument, naming the rule, and writes nothing") {
  struct Refusal {
    std::vector<at::Tensor> grads;
    at::Tensor found_inf;
    at::Tensor inv_scale;
    const char* message;
  };
  const at::Tensor good = scalar(0);
  const at::Tensor half = scalar(0.5F);
  const std::vector<Refusal> refusals = {
      {{torch::ones({3}).to_sparse()}, good, half, "unscale_: `grads[1]` must be dense, got layout Sparse; coalesce"},
      {{torch::ones({3}, at::kInt)},
       good,
       half,
       "`grads[1]` must be float32, float64, float16, bfloat16, complex64 or complex128, got Int"},
      {{torch::ones({3}).to(at::kFloat8_e5m2)}, good, half, "got Float8_e5m2"},
      {{torch::ones({1}).expand({3})}, good, half, "must not overlap itself in memory"},
      {{torch::ones({3}, at::kMeta)}, good, half, "`grads[1]` must be on the device of `found_inf`, cpu, got meta"},
      {{at::Tensor()}, good, half, "`grads[1]` must be a tensor, got an undefined one"},
      {{}, at::Tensor(), half, "`found_inf` must be a tensor, got an undefined one"},
      {{}, good.to(at::kDouble), half, "`found_inf` must be Float, got Double"},
      {{}, torch::zeros({2}), half, "`found_inf` must hold one element, got shape [2]"},
      {{}, torch::zeros({1}, torch::requires_grad()), half, "`found_inf` must not be a leaf that requires grad"},
      {{}, good, at::Tensor(), "`inv_scale` must be a tensor, got an undefined one"},
      {{}, good, half.to(at::kDouble), "`inv_scale` must be Float, got Double"},
      {{}, good, torch::ones({0}), "`inv_scale` must hold one element, got shape [0]"},
      {{}, good, half.to(at::kMeta), "`inv_scale` must be on the device of `found_inf`, cpu, got meta"},
  };
  for (const Refusal& refusal : refusals) {
    at::Tensor first = torch::full({3}, kInf);
    std::vector<at::Tensor> grads = {first};
    grads.insert(grads.end(), refusal.grads.begin(), refusal.grads.end());
    at::Tensor found_inf = refusal.found_inf;
    CHECK_THROWS_WITH(ampcast::unscale_(grads, found_inf, refusal.inv_scale), ContainsSubstring(refusal.message));
    CHECK(first.eq(kInf).all().item<bool>());
    CHECK(good.item<float>() == 0.0F);
  }
}
