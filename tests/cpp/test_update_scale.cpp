#include <ampcast/ops.h>

#include <ATen/ops/_amp_update_scale.h>
#include <torch/types.h>

#include "catch2_compat.h"
#include "scaler/scale_rule.h"

#include <limits>
#include <random>

using ampcast::scaler::next_scale;
using ampcast::scaler::ScaleRule;
using ampcast::scaler::ScaleState;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

at::Tensor tensor_of(float value) {
  return torch::full({1}, value);
}

/// Our state and torch's after the same step from the same state; checks that they are equal and returns it.
ScaleState step_in_lockstep(const ScaleState& state, float found_inf, const ScaleRule& rule) {
  at::Tensor scale = tensor_of(state.scale);
  at::Tensor tracker = torch::full({1}, state.growth_tracker, at::kInt);
  at::Tensor torch_scale = scale.clone();
  at::Tensor torch_tracker = tracker.clone();
  ampcast::update_scale_(
      scale, tracker, tensor_of(found_inf), rule.growth_factor, rule.backoff_factor, rule.growth_interval);
  at::_amp_update_scale_(
      torch_scale, torch_tracker, tensor_of(found_inf), rule.growth_factor, rule.backoff_factor, rule.growth_interval);
  CHECK(scale.view(at::kInt).equal(torch_scale.view(at::kInt)));
  CHECK(tracker.equal(torch_tracker));
  return {scale.item<float>(), tracker.item<int32_t>()};
}

} // namespace

TEST_CASE("update_scale_ follows torch over random sequences, bit for bit") {
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  for (int sequence = 0; sequence < 20; ++sequence) {
    const ScaleRule rule{1.0 + 3.0 * uniform(random), uniform(random), 1 + static_cast<int64_t>(5 * uniform(random))};
    const double overflow_rate = uniform(random);
    ScaleState state{65536.0F, 0};
    for (int step = 0; step < 200; ++step) {
      state = step_in_lockstep(state, uniform(random) < overflow_rate ? 1.0F : 0.0F, rule);
    }
  }
}

TEST_CASE("update_scale_ follows torch at the edges of float32") {
  const ScaleRule every_step{2.0, 0.5, 1};
  CHECK(step_in_lockstep({0x1p127F, 0}, 0, every_step).scale == 0x1p127F); // growth to Inf is left out
  CHECK(step_in_lockstep({0x1p-149F, 0}, 1, every_step).scale == 0.0F); // half the smallest number rounds to even
  CHECK(step_in_lockstep({0x1p-126F, 0}, 1, every_step).scale == 0x1p-127F);
  CHECK(step_in_lockstep({0.0F, 0}, 0, every_step).scale == 0.0F);
  CHECK(step_in_lockstep({kInf, 0}, 1, every_step).scale == kInf);
  CHECK(step_in_lockstep({1.0F, 0}, 0, {1e300, 0.5, 1}).scale == 1.0F);
  CHECK(
      step_in_lockstep({3.0F, 0}, 1, {2.0, 0.1, 1}).scale ==
      static_cast<float>(3.0 * 0.1)); // the factor is not float32
}

TEST_CASE("update_scale_ backs off for any found_inf that is not 0") {
  const ScaleRule rule{2.0, 0.5, 1};
  for (const float found_inf : {1.0F, 2.0F, 0.25F, -1.0F, kInf, std::numeric_limits<float>::quiet_NaN()}) {
    CAPTURE(found_inf);
    CHECK(step_in_lockstep({8.0F, 3}, found_inf, rule).scale == 4.0F);
  }
  CHECK(step_in_lockstep({8.0F, 3}, -0.0F, {2.0, 0.5, 4}).scale == 16.0F);
}

TEST_CASE("update_scale_ does not grow once the interval is below the tracker, until a bad step") {
  const ScaleRule rule{2.0, 0.5, 3};
  ScaleState state{8.0F, 5};
  for (int step = 0; step < 10; ++step) {
    state = step_in_lockstep(state, 0, rule);
  }
  CHECK(state.scale == 8.0F);
  state = step_in_lockstep(state, 1, rule);
  for (int step = 0; step < 3; ++step) {
    state = step_in_lockstep(state, 0, rule);
  }
  CHECK(state.scale == 8.0F);
  CHECK(state.growth_tracker == 0);
}

TEST_CASE("next_scale is the rule that update_scale_ applies") {
  const ScaleState grown = next_scale({8.0F, 2}, 0.0F, {2.0, 0.5, 3});
  CHECK(grown.scale == 16.0F);
  CHECK(grown.growth_tracker == 0);
}

TEST_CASE("update_scale_ refuses a bad argument, naming the rule, and writes nothing") {
  const at::Tensor scale = tensor_of(8);
  const at::Tensor tracker = torch::zeros({1}, at::kInt);
  const at::Tensor bad = tensor_of(1);
  const auto refuses = [](at::Tensor s, at::Tensor t, const at::Tensor& found_inf, const char* message) {
    CHECK_THROWS_WITH(ampcast::update_scale_(s, t, found_inf, 2.0, 0.5, 1), ContainsSubstring(message));
  };
  refuses(scale.to(at::kDouble), tracker, bad, "ampcast::update_scale_: `scale` must be Float, got Double");
  refuses(scale, tracker.to(at::kLong), bad, "`growth_tracker` must be Int, got Long");
  refuses(scale, tracker, bad.to(at::kHalf), "`found_inf` must be Float, got Half");
  refuses(torch::ones({2}), tracker, bad, "`scale` must hold one element, got shape [2]");
  refuses(scale, torch::zeros({0}, at::kInt), bad, "`growth_tracker` must hold one element, got shape [0]");
  refuses(scale, tracker, torch::zeros({3}), "`found_inf` must hold one element, got shape [3]");
  refuses(scale, tracker.to(at::kMeta), bad, "`growth_tracker` must be on the device of `found_inf`, cpu, got meta");
  refuses(at::Tensor(), tracker, bad, "`scale` must be a tensor, got an undefined one");
  refuses(torch::ones({1}, torch::requires_grad()), tracker, bad, "`scale` must not be a leaf that requires grad");
  CHECK(scale.item<float>() == 8.0F);
  CHECK(tracker.item<int32_t>() == 0);
}
