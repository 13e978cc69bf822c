#include <ampcast/ops.h>

#include <torch/types.h>

#include "catch2_compat.h"
#include "gradient_cases.h"
#include "read_only_memory.h"

using Catch::Matchers::ContainsSubstring;
using namespace gradient_cases;

namespace {

bool check(const std::vector<at::Tensor>& grads, std::optional<float> inv_scale = std::nullopt) {
  at::Tensor found_inf = scalar(0);
  ampcast::check_finite_(
      grads, found_inf, inv_scale.has_value() ? std::optional<at::Tensor>(scalar(*inv_scale)) : std::nullopt);
  return found_inf.item<float>() == 1.0F;
}

} // namespace

TEST_CASE("check_finite_ finds what unscale_ would write, for every dtype, size and inverse scale") {
  torch::manual_seed(0);
  for (const at::ScalarType dtype : kDtypes) {
    for (const int64_t size : kSizes) {
      for (const float inv_scale : kInvScales) {
        CAPTURE(dtype, size, inv_scale);
        const at::Tensor grad = torch::randn({size}).mul(100).to(dtype);
        CHECK(check({grad}, inv_scale) == !all_finite(unscaled(grad, inv_scale)));
      }
    }
  }
}

TEST_CASE("check_finite_ finds one Inf or NaN wherever it stands") {
  for (const at::ScalarType dtype : kDtypes) {
    for (const float value : {kInf, -kInf, kNaN}) {
      for (const int64_t place : {0, 1, 62, 63, 64, 500, 999, 1000}) {
        CAPTURE(dtype, value, place);
        at::Tensor grad = torch::ones({1001}, dtype);
        real_view(grad).flatten()[grad.is_complex() ? 2 * place + place % 2 : place] = value;
        CHECK(check({torch::ones({3}), grad}));
        CHECK(check({grad}, 0.5F));
      }
    }
  }
}

TEST_CASE("check_finite_ takes the largest finite number of a dtype for finite") {
  for (const at::ScalarType dtype : kRealDtypes) {
    CAPTURE(dtype);
    const double largest = dtype == at::kHalf ? 65504.0
        : dtype == at::kBFloat16              ? 0x1.fep127
        : dtype == at::kFloat                 ? std::numeric_limits<float>::max()
                                              : std::numeric_limits<double>::max();
    CHECK_FALSE(
        check({torch::full({77}, largest, at::kDouble).to(dtype), torch::full({77}, -largest, at::kDouble).to(dtype)}));
  }
}

TEST_CASE("check_finite_ only reads") {
  for (const at::ScalarType dtype : kDtypes) {
    for (const std::optional<float> inv_scale :
         {std::optional<float>(), std::optional<float>(1.0F), std::optional<float>(0.3F)}) {
      CAPTURE(dtype, inv_scale.value_or(0));
      const ReadOnlyMemory memory(torch::ones({1001}, dtype)); // a write would end the process
      CHECK_FALSE(check({memory.tensor(), memory.tensor().slice(0, 0, 1001, 3)}, inv_scale));
    }
  }
}

TEST_CASE("check_finite_ handles every layout") {
  torch::manual_seed(1);
  for (const at::ScalarType dtype : kDtypes) {
    for (const Layout& layout : layouts(dtype)) {
      CAPTURE(dtype, layout.name);
      CHECK_FALSE(check({layout.view}));
      CHECK_FALSE(check({layout.view}, 0.3F));
      if (layout.view.numel() > 0) {
        at::Tensor last = layout.view.dim() > 0 ? layout.view.select(0, -1) : layout.view;
        last.fill_(kNaN);
        CHECK(check({layout.view}));
      }
    }
  }
}

TEST_CASE("check_finite_ takes expanded tensors, leaves that require grad and empty lists") {
  const at::Tensor base = torch::ones({1, 3, 1});
  CHECK_FALSE(check({base.expand({4, 3, 5}), torch::ones({}).expand({1000})}));
  base[0][2][0] = kInf;
  CHECK(check({base.expand({4, 3, 5})}));
  CHECK(check({base.expand({4, 3, 5})}, 0.5F));
  CHECK_FALSE(check({torch::ones({3}, torch::requires_grad())}));
  CHECK_FALSE(check({}));
}

TEST_CASE("check_finite_ never clears found_inf") {
  at::Tensor found_inf = scalar(1);
  ampcast::check_finite_({torch::ones({9})}, found_inf);
  CHECK(found_inf.item<float>() == 1.0F);
}

TEST_CASE("check_finite_ refuses a bad argument, naming the rule") {
  at::Tensor found_inf = scalar(0);
  const auto refuses = [&](const at::Tensor& grad, const char* message) {
    CHECK_THROWS_WITH(ampcast::check_finite_({torch::full({3}, kInf), grad}, found_inf), ContainsSubstring(message));
  };
  refuses(torch::ones({3}).to_sparse(), "ampcast::check_finite_: `grads[1]` must be dense, got layout Sparse");
  refuses(torch::ones({3}, at::kLong), "complex64 or complex128, got Long; convert it first");
  refuses(torch::ones({3}, at::kMeta), "must be on the device of `found_inf`, cpu, got meta");
  refuses(at::Tensor(), "must be a tensor, got an undefined one");
  CHECK_THROWS_WITH(
      ampcast::check_finite_({}, found_inf, torch::ones({2})),
      ContainsSubstring("`inv_scale` must hold one element, got shape [2]"));
  at::Tensor two = torch::zeros({2});
  CHECK_THROWS_WITH(ampcast::check_finite_({}, two), ContainsSubstring("`found_inf` must hold one element"));
  CHECK(found_inf.item<float>() == 0.0F);
}
