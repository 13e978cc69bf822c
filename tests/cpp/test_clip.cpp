#include <ampcast/ops.h>

#include <torch/types.h>

#include "catch2_compat.h"
#include "gradient_cases.h"
#include "read_only_memory.h"

using Catch::Matchers::ContainsSubstring;
using namespace gradient_cases;

namespace {

/// What `torch.nn.utils.clip_grads_with_norm_` does to one gradient, in its own operations.
at::Tensor clipped(const at::Tensor& grad, const at::Tensor& norm, double max_norm) {
  const at::Tensor coefficient = norm.add(1e-6).reciprocal().mul(max_norm).clamp_max(1.0);
  return grad.mul(coefficient.squeeze()).to(grad.scalar_type());
}

} // namespace

TEST_CASE("clip_ gives torch's bits for every dtype and layout") {
  torch::manual_seed(0);
  for (const at::ScalarType dtype : kDtypes) {
    for (const float norm : {0.0F, 0.3F, 1.0F, 7.7F, 1e30F}) {
      for (const double max_norm : {0.0, 0.1, 1.0, 5.0}) {
        std::vector<at::Tensor> grads;
        std::vector<at::Tensor> expected;
        for (const Layout& layout : layouts(dtype)) {
          grads.push_back(layout.view);
          expected.push_back(clipped(layout.view, scalar(norm), max_norm));
        }
        ampcast::clip_(grads, scalar(norm), max_norm);
        for (size_t i = 0; i < grads.size(); ++i) {
          CAPTURE(dtype, norm, max_norm, i);
          // A complex product with a real factor may differ from torch's in the sign of a zero.
          const bool same = grads[i].is_complex() ? grads[i].equal(expected[i]) : same_bits(grads[i], expected[i]);
          CHECK(same);
        }
      }
    }
  }
}

TEST_CASE("clip_ writes nothing when no clipping is due") {
  const ReadOnlyMemory memory(torch::ones({4096}));
  CHECK_NOTHROW(ampcast::clip_({memory.tensor()}, scalar(0.5F), 1.0));
  CHECK_NOTHROW(ampcast::clip_({memory.tensor()}, scalar(1e30F), kInf));
}

TEST_CASE("clip_ with a norm that is not finite does what torch does") {
  for (const float norm : {kInf, kNaN}) {
    at::Tensor grad = torch::tensor({1.0F, -2.0F, kInf, kNaN});
    const at::Tensor expected = clipped(grad, scalar(norm), 1.0);
    ampcast::clip_({grad}, scalar(norm), 1.0);
    CHECK(same_bits(grad, expected));
  }
}

TEST_CASE("clip_ refuses bad arguments and writes nothing") {
  at::Tensor grad = torch::ones({3});
  const auto call = [&](const at::Tensor& last, const at::Tensor& norm, double max_norm) {
    ampcast::clip_({grad, last}, norm, max_norm);
  };
  const at::Tensor fine = torch::ones({2});
  CHECK_THROWS_WITH(call(fine, scalar(9), -1.0), ContainsSubstring("`max_norm` must be a number from 0 on, got -1"));
  CHECK_THROWS_WITH(call(fine, scalar(9), kNaN), ContainsSubstring("got nan"));
  CHECK_THROWS_WITH(call(fine, torch::ones({2}), 1.0), ContainsSubstring("clip_: `norm` must hold one element"));
  CHECK_THROWS_WITH(call(fine, torch::ones({1}, at::kHalf), 1.0), ContainsSubstring("`norm` must be Float, got Half"));
  CHECK_THROWS_WITH(
      call(torch::ones({2}, at::kMeta), scalar(9), 1.0),
      ContainsSubstring("clip_: `grads[1]` must be on the device of `norm`, cpu, got meta"));
  CHECK_THROWS_WITH(call(torch::ones({2}, at::kLong), scalar(9), 1.0), ContainsSubstring("got Long"));
  CHECK_THROWS_WITH(call(torch::ones({1}).expand({3}), scalar(9), 1.0), ContainsSubstring("must not overlap itself"));
  CHECK_THROWS_WITH(call(torch::ones({3}).requires_grad_(), scalar(9), 1.0), ContainsSubstring("torch.no_grad()"));
  CHECK(grad.equal(torch::ones({3})));
}
