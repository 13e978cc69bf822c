#include <ampcast/ops.h>

#include <ATen/Parallel.h>
#include <torch/types.h>

#include "catch2_compat.h"
#include "gradient_cases.h"
#include "read_only_memory.h"

#include <cmath>

using Catch::Matchers::ContainsSubstring;
using namespace gradient_cases;

namespace {

constexpr double kInfNorm = std::numeric_limits<double>::infinity();

struct Outcome {
  float norm;
  bool found_inf;
};

Outcome unscale_norm(const std::vector<at::Tensor>& grads, float inv_scale, double norm_type = 2.0) {
  at::Tensor found_inf = scalar(0);
  at::Tensor norm = scalar(-1);
  ampcast::unscale_norm_(grads, found_inf, scalar(inv_scale), norm, norm_type);
  return {norm.item<float>(), found_inf.item<float>() == 1.0F};
}

/// The norm of all elements together, in float64; of a complex element its magnitude counts.
double reference_norm(const std::vector<at::Tensor>& grads, double norm_type) {
  std::vector<at::Tensor> magnitudes;
  for (const at::Tensor& grad : grads) {
    magnitudes.push_back(grad.to(grad.is_complex() ? at::kComplexDouble : at::kDouble).abs().flatten());
  }
  return at::linalg_vector_norm(at::cat(magnitudes), norm_type).item<double>();
}

/// How many float32 numbers lie between `a` and the rounded `b`, both finite and not negative.
int64_t ulps(float a, double b) {
  return std::abs(
      int64_t{scalar(a).view(at::kInt).item<int>()} - scalar(static_cast<float>(b)).view(at::kInt).item<int>());
}

std::vector<at::Tensor> of_every_kind() {
  std::vector<at::Tensor> grads;
  for (const at::ScalarType dtype : kDtypes) {
    for (const Layout& layout : layouts(dtype)) {
      grads.push_back(layout.view);
    }
    grads.push_back(torch::randn({20011}).to(dtype));
  }
  return grads;
}

} // namespace

TEST_CASE("unscale_norm_ writes what unscale_ writes and takes the norm of it, for every dtype, size and norm") {
  torch::manual_seed(0);
  for (const at::ScalarType dtype : kDtypes) {
    for (const int64_t size : {1, 2, 31, 32, 33, 65, 1001, 16385}) {
      for (const double norm_type : {2.0, kInfNorm}) {
        for (const float inv_scale : {1.0F, 0x1p-16F, 0.3F}) {
          CAPTURE(dtype, size, norm_type, inv_scale);
          at::Tensor grad = torch::randn({size}).to(dtype);
          const at::Tensor expected = unscaled(grad, inv_scale);
          const Outcome outcome = unscale_norm({grad}, inv_scale, norm_type);
          CHECK(same_bits(grad, expected));
          CHECK_FALSE(outcome.found_inf);
          CHECK(ulps(outcome.norm, reference_norm({expected}, norm_type)) <= 1);
        }
      }
    }
  }
}

TEST_CASE("unscale_norm_ takes one norm over dtypes, layouts and sizes mixed in one list") {
  for (const double norm_type : {2.0, kInfNorm}) {
    CAPTURE(norm_type);
    torch::manual_seed(1);
    const std::vector<at::Tensor> grads = of_every_kind();
    const Outcome outcome = unscale_norm(grads, 0.3F, norm_type);
    CHECK(ulps(outcome.norm, reference_norm(grads, norm_type)) <= 1);
  }
}

TEST_CASE("unscale_norm_ gives the same bits for any number of threads") {
  const int threads = at::get_num_threads();
  torch::manual_seed(2);
  const std::vector<at::Tensor> grads = {torch::randn({1700001}), torch::randn({2300007}).to(at::kBFloat16)};
  at::set_num_threads(1);
  const float serial = unscale_norm(grads, 1.0F).norm;
  for (const int count : {2, 3, 5}) {
    at::set_num_threads(count);
    CHECK(unscale_norm(grads, 1.0F).norm == serial);
  }
  at::set_num_threads(threads);
}

TEST_CASE("unscale_norm_ neither overflows nor underflows where the norm does not") {
  for (const float value : {1e30F, 1e-30F}) {
    CAPTURE(value);
    const Outcome outcome = unscale_norm({torch::full({64}, value)}, 1.0F);
    CHECK(ulps(outcome.norm, 8.0 * value) <= 1);
    CHECK_FALSE(outcome.found_inf);
  }
}

TEST_CASE("unscale_norm_ of finite gradients sets no found_inf though the norm is beyond float32") {
  const Outcome outcome = unscale_norm({torch::full({64}, 3e38F)}, 1.0F);
  CHECK(outcome.norm == kInf);
  CHECK_FALSE(outcome.found_inf);
}

TEST_CASE("unscale_norm_ carries Inf and NaN into the norm wherever they stand") {
  for (const at::ScalarType dtype : kDtypes) {
    for (const double norm_type : {2.0, kInfNorm}) {
      for (const int64_t place : {0, 40, 1000}) {
        CAPTURE(dtype, norm_type, place);
        at::Tensor grad = torch::ones({1001}, dtype);
        grad[place] = kInf;
        const Outcome with_inf = unscale_norm({torch::ones({3}), grad}, 0.5F, norm_type);
        CHECK(with_inf.found_inf);
        CHECK(with_inf.norm == kInf);
        real_view(grad).flatten()[grad.is_complex() ? 2 * place : place] = kNaN;
        const Outcome with_nan = unscale_norm({grad, torch::ones({3})}, 0.5F, norm_type);
        CHECK(with_nan.found_inf);
        CHECK(std::isnan(with_nan.norm));
      }
    }
  }
}

TEST_CASE("unscale_norm_ of nothing is 0 and overwrites what norm held") {
  CHECK(unscale_norm({}, 0.5F).norm == 0.0F);
  CHECK(unscale_norm({torch::ones({0, 3})}, 0.5F, kInfNorm).norm == 0.0F);
}

TEST_CASE("unscale_norm_ writes no gradient when the inverse scale is 1") {
  const ReadOnlyMemory memory(torch::ones({4096}));
  CHECK(unscale_norm({memory.tensor()}, 1.0F).norm >= 0.0F);
}

TEST_CASE("unscale_norm_ refuses bad arguments and writes nothing") {
  at::Tensor grad = torch::ones({3});
  at::Tensor found_inf = scalar(0);
  at::Tensor norm = scalar(-1);
  const auto call = [&](const at::Tensor& last, at::Tensor norm_argument, double norm_type) {
    ampcast::unscale_norm_({grad, last}, found_inf, scalar(0.5F), norm_argument, norm_type);
  };
  const at::Tensor fine = torch::ones({2});
  CHECK_THROWS_WITH(call(fine, norm, 3.0), ContainsSubstring("`norm_type` must be 2 or inf, got 3"));
  CHECK_THROWS_WITH(call(fine, norm, -kInfNorm), ContainsSubstring("must be 2 or inf, got -inf"));
  CHECK_THROWS_WITH(
      call(fine, norm.to(at::kDouble), 2.0), ContainsSubstring("unscale_norm_: `norm` must be Float, got Double"));
  CHECK_THROWS_WITH(call(fine, torch::zeros({2}), 2.0), ContainsSubstring("`norm` must hold one element"));
  CHECK_THROWS_WITH(
      call(fine, torch::zeros({1}, at::kMeta), 2.0), ContainsSubstring("`norm` must be on the device of `found_inf`"));
  CHECK_THROWS_WITH(
      call(torch::ones({3}, at::kInt), norm, 2.0),
      ContainsSubstring("unscale_norm_: `grads[1]` must be float32") && ContainsSubstring("got Int"));
  CHECK_THROWS_WITH(call(torch::ones({1}).expand({3}), norm, 2.0), ContainsSubstring("must not overlap itself"));
  CHECK_THROWS_WITH(call(torch::ones({3}).requires_grad_(), norm, 2.0), ContainsSubstring("torch.no_grad()"));
  CHECK(grad.equal(torch::ones({3})));
  CHECK(found_inf.item<float>() == 0.0F);
  CHECK(norm.item<float>() == -1.0F);
}
