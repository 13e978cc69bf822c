#include <ampcast/ampcast.h>

#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include "catch2_compat.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using ampcast::GradScaler;
using ampcast::GradScalerOptions;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

at::Tensor parameter_with_gradient(const at::Tensor& gradient) {
  at::Tensor parameter = torch::ones_like(gradient).requires_grad_();
  parameter.mutable_grad() = gradient;
  return parameter;
}

GradScaler cpu_scaler(double init_scale = 4.0, int64_t growth_interval = 2000) {
  GradScalerOptions options;
  options.init_scale = init_scale;
  options.growth_interval = growth_interval;
  return GradScaler(at::kCPU, options);
}

/// log2 of the scale after each step of `steps`, in which 'x' is a step with Inf.
std::vector<double> trajectory(const std::string& steps) {
  GradScaler scaler = cpu_scaler(256.0, 3);
  at::Tensor parameter = parameter_with_gradient(torch::ones({2}));
  torch::optim::SGD optimizer({parameter}, 0.1);
  std::vector<double> scales;
  for (const char step : steps) {
    scaler.scale(torch::ones({}));
    parameter.mutable_grad() = torch::full({2}, step == 'x' ? kInf : 1.0F);
    CHECK(scaler.step(optimizer) == (step != 'x'));
    scaler.update();
    scales.push_back(std::log2(scaler.get_scale()));
  }
  return scales;
}

at::IValue through_pickle(const at::IValue& value) {
  return torch::pickle_load(torch::pickle_save(value));
}

} // namespace

TEST_CASE("scale follows the golden trajectories") {
  CHECK(trajectory(".......x....xx....x.x......") == std::vector<double>{8, 8, 9, 9, 9, 10, 10, 9, 9, 9, 10, 10, 9, 8,
                                                                         8, 8, 9, 9, 8, 8,  7,  7, 7, 8, 8,  8,  9});
  CHECK(trajectory("xxx.xxxxxxxx....") == std::vector<double>{7, 6, 5, 5, 4, 3, 2, 1, 0, -1, -2, -3, -3, -3, -2, -2});
}

TEST_CASE("scaled loss gives gradients times the scale and step undoes it") {
  GradScaler scaler = cpu_scaler(1024.0);
  at::Tensor parameter = torch::ones({3}, torch::requires_grad());
  torch::optim::SGD optimizer({parameter}, 0.5);
  scaler.scale((parameter * 3.0).sum()).backward();
  CHECK(parameter.grad().equal(torch::full({3}, 3072.0F)));
  CHECK(scaler.step(optimizer));
  CHECK(parameter.grad().equal(torch::full({3}, 3.0F)));
  CHECK(parameter.equal(torch::full({3}, -0.5F)));
}

TEST_CASE("skipped step leaves weights and optimizer state unchanged") {
  GradScaler scaler = cpu_scaler();
  at::Tensor parameter = parameter_with_gradient(torch::ones({3}));
  torch::optim::Adam optimizer({parameter}, 0.1);
  scaler.scale(torch::ones({}));
  REQUIRE(scaler.step(optimizer));
  scaler.update();
  const at::Tensor weights = parameter.detach().clone();
  auto& state = static_cast<torch::optim::AdamParamState&>(*optimizer.state().at(parameter.unsafeGetTensorImpl()));
  const at::Tensor average = state.exp_avg().clone();

  parameter.mutable_grad() = torch::tensor({1.0F, kInf, 1.0F});
  CHECK_FALSE(scaler.step(optimizer));
  CHECK(parameter.equal(weights));
  CHECK(state.exp_avg().equal(average));
  CHECK(state.step() == 1);
}

TEST_CASE("product that overflows at a scale below 1 skips the step") {
  GradScaler scaler = cpu_scaler(0.25);
  at::Tensor parameter = parameter_with_gradient(torch::full({2}, 2e38F));
  torch::optim::SGD optimizer({parameter}, 0.1);
  scaler.scale(torch::ones({}));
  CHECK_FALSE(scaler.step(optimizer));
  CHECK(parameter.equal(torch::ones({2})));
}

TEST_CASE("gradients of several dtypes are unscaled in one call") {
  GradScaler scaler = cpu_scaler(4.0);
  const at::Tensor single = parameter_with_gradient(torch::ones({2}));
  const at::Tensor double_precision = parameter_with_gradient(torch::ones({2}, at::kDouble));
  const at::Tensor brain = parameter_with_gradient(torch::ones({2}, at::kBFloat16));
  const at::Tensor complex = parameter_with_gradient(torch::ones({2}, at::kComplexFloat));
  const at::Tensor without_gradient = torch::ones({2}, torch::requires_grad());
  torch::optim::SGD optimizer({single, double_precision, brain, complex, without_gradient}, 0.1);
  scaler.scale(torch::ones({}));
  scaler.unscale_(optimizer);
  for (const at::Tensor& parameter : {single, double_precision, brain, complex}) {
    CHECK(parameter.grad().equal(torch::full_like(parameter, 0.25)));
  }
  CHECK_FALSE(without_gradient.grad().defined());
}

TEST_CASE("values of sparse gradients are unscaled and checked") {
  GradScaler scaler = cpu_scaler(4.0);
  const at::Tensor indices = torch::tensor({0, 2}).reshape({1, 2});
  at::Tensor parameter = torch::ones({3}, torch::requires_grad());
  parameter.mutable_grad() = torch::sparse_coo_tensor(indices, torch::tensor({8.0F, 4.0F}), {3});
  torch::optim::SGD optimizer({parameter}, 1.0);
  scaler.scale(torch::ones({}));
  CHECK(scaler.step(optimizer));
  CHECK(parameter.equal(torch::tensor({-1.0F, 1.0F, 0.0F})));
}

TEST_CASE("overflow in one of two optimizers skips that one and backs the scale off once") {
  GradScaler scaler = cpu_scaler(4.0);
  at::Tensor good = parameter_with_gradient(torch::ones({2}));
  at::Tensor bad = parameter_with_gradient(torch::full({2}, kInf));
  at::Tensor also_bad = parameter_with_gradient(torch::full({2}, kInf));
  torch::optim::SGD good_optimizer({good}, 1.0);
  torch::optim::SGD bad_optimizer({bad}, 1.0);
  torch::optim::SGD other_bad_optimizer({also_bad}, 1.0);
  scaler.scale(torch::ones({}));
  CHECK(scaler.step(good_optimizer));
  CHECK_FALSE(scaler.step(bad_optimizer));
  CHECK_FALSE(scaler.step(other_bad_optimizer));
  scaler.update();
  CHECK(scaler.get_scale() == 2.0);
  CHECK(good.equal(torch::full({2}, 0.75F)));
  CHECK(bad.equal(torch::ones({2})));
}

TEST_CASE("lists of losses are scaled together or not at all") {
  GradScaler scaler = cpu_scaler(4.0);
  const at::Tensor loss = torch::ones({});
  CHECK_THROWS_AS(scaler.scale({loss, torch::ones({}, at::kInt)}), c10::TypeError);
  CHECK_THROWS_WITH(scaler.update(), ContainsSubstring("Attempted update but _scale is None."));
  const std::vector<at::Tensor> scaled = scaler.scale({loss, loss * 2});
  CHECK(scaled.at(0).item<float>() == 4.0F);
  CHECK(scaled.at(1).item<float>() == 8.0F);
}

TEST_CASE("losses that cannot be scaled are refused and start nothing") {
  GradScaler scaler = cpu_scaler();
  CHECK_THROWS_AS(scaler.scale(torch::ones({}, at::kLong)), c10::TypeError);
  CHECK_THROWS_AS(scaler.scale(at::Tensor()), c10::TypeError);
  CHECK_THROWS_WITH(scaler.update(), ContainsSubstring("Attempted update but _scale is None."));
}

TEST_CASE("calls out of order are refused with torch's messages") {
  GradScaler scaler = cpu_scaler();
  at::Tensor parameter = parameter_with_gradient(torch::ones({2}));
  torch::optim::SGD optimizer({parameter}, 0.1);
  CHECK_THROWS_WITH(scaler.unscale_(optimizer), ContainsSubstring("Attempted unscale_ but _scale is None."));
  CHECK_THROWS_WITH(scaler.step(optimizer), ContainsSubstring("Attempted step but _scale is None."));

  scaler.scale(torch::ones({}));
  CHECK_THROWS_WITH(scaler.update(), ContainsSubstring("No inf checks were recorded prior to update."));
  scaler.unscale_(optimizer);
  CHECK_THROWS_WITH(
      scaler.unscale_(optimizer),
      ContainsSubstring("unscale_() has already been called on this optimizer since the last update()."));
  CHECK(scaler.step(optimizer));
  CHECK_THROWS_WITH(scaler.unscale_(optimizer), ContainsSubstring("unscale_() is being called after step()."));
  CHECK_THROWS_WITH(
      scaler.step(optimizer), ContainsSubstring("step() has already been called since the last update()."));
  scaler.update();
  CHECK(scaler.step(optimizer));
}

TEST_CASE("clip_grad_norm_ unscales, returns the norm and clips, then step takes the clipped gradients") {
  GradScaler scaler = cpu_scaler(4.0);
  const at::Tensor parameter = parameter_with_gradient(torch::tensor({12.0F, 16.0F}));
  torch::optim::SGD optimizer({parameter}, 1.0);
  scaler.scale(torch::ones({}));
  CHECK(scaler.clip_grad_norm_(optimizer, 2.5).item<float>() == 5.0F);
  CHECK(torch::allclose(parameter.grad(), torch::tensor({1.5F, 2.0F})));
  CHECK(torch::allclose(scaler.clip_grad_norm_(optimizer, kInf), torch::tensor(2.5F)));
  CHECK(scaler.clip_grad_norm_(optimizer, 2.5, kInf).item<float>() == parameter.grad()[1].item<float>());
  CHECK(scaler.step(optimizer));
  CHECK(torch::allclose(parameter, torch::tensor({-0.5F, -1.0F})));
  CHECK_THROWS_WITH(scaler.clip_grad_norm_(optimizer, 1.0), ContainsSubstring("is being called after step()"));
}

TEST_CASE("clip_grad_norm_ hands other norms and sparse gradients to torch") {
  GradScaler scaler = cpu_scaler(4.0);
  const at::Tensor parameter = parameter_with_gradient(torch::tensor({12.0F, 16.0F}));
  torch::optim::SGD optimizer({parameter}, 1.0);
  scaler.scale(torch::ones({}));
  CHECK(scaler.clip_grad_norm_(optimizer, 100.0, 1.0).item<float>() == 7.0F);
  CHECK(parameter.grad().equal(torch::tensor({3.0F, 4.0F})));
  CHECK(scaler.step(optimizer));
}

TEST_CASE("clip_grad_norm_ with error_if_nonfinite leaves unscaled gradients and a step that skips") {
  GradScaler scaler = cpu_scaler(4.0);
  const at::Tensor parameter = parameter_with_gradient(torch::tensor({8.0F, kInf}));
  torch::optim::SGD optimizer({parameter}, 1.0);
  scaler.scale(torch::ones({}));
  CHECK_THROWS_WITH(
      scaler.clip_grad_norm_(optimizer, 1.0, 2.0, /*error_if_nonfinite=*/true),
      ContainsSubstring("The total norm of order 2 for gradients from `parameters` is non-finite"));
  CHECK(parameter.grad().equal(torch::tensor({2.0F, kInf})));
  CHECK_FALSE(scaler.step(optimizer));
}

TEST_CASE("clip_grad_norm_ refuses a bad max_norm before it changes anything, and only clips when disabled") {
  const at::Tensor parameter = parameter_with_gradient(torch::tensor({3.0F, 4.0F}));
  torch::optim::SGD optimizer({parameter}, 1.0);
  GradScaler scaler = cpu_scaler(4.0);
  CHECK_THROWS_WITH(scaler.clip_grad_norm_(optimizer, 1.0), ContainsSubstring("Attempted clip_grad_norm_ but _scale"));
  scaler.scale(torch::ones({}));
  CHECK_THROWS_AS(scaler.clip_grad_norm_(optimizer, -1.0), c10::ValueError);
  CHECK_THROWS_AS(scaler.clip_grad_norm_(optimizer, kNaN), c10::ValueError);
  CHECK(parameter.grad().equal(torch::tensor({3.0F, 4.0F})));
  GradScalerOptions options;
  options.enabled = false;
  GradScaler disabled(at::kCPU, options);
  CHECK(disabled.clip_grad_norm_(optimizer, 1.0).item<float>() == 5.0F);
  CHECK(torch::allclose(parameter.grad(), torch::tensor({0.6F, 0.8F})));
}

TEST_CASE("optimizer without gradients is refused") {
  GradScaler scaler = cpu_scaler();
  torch::optim::SGD optimizer({torch::ones({2}, torch::requires_grad())}, 0.1);
  scaler.scale(torch::ones({}));
  CHECK_THROWS_WITH(scaler.step(optimizer), ContainsSubstring("No inf checks were recorded for this optimizer."));
}

TEST_CASE("float16 gradients are refused before any gradient is written") {
  GradScaler scaler = cpu_scaler(4.0);
  const at::Tensor single = parameter_with_gradient(torch::ones({2}));
  const at::Tensor half = parameter_with_gradient(torch::ones({2}, at::kHalf));
  torch::optim::SGD optimizer({single, half}, 0.1);
  scaler.scale(torch::ones({}));
  CHECK_THROWS_AS(scaler.unscale_(optimizer), c10::ValueError);
  CHECK_THROWS_WITH(scaler.unscale_(optimizer), ContainsSubstring("Attempting to unscale FP16 gradients."));
  CHECK(single.grad().equal(torch::ones({2})));
}

TEST_CASE("options out of range are refused unless disabled") {
  const auto construct = [](void (*change)(GradScalerOptions&), bool enabled) {
    GradScalerOptions options;
    options.enabled = enabled;
    change(options);
    return GradScaler(at::kCPU, options).is_enabled();
  };
  const std::vector<void (*)(GradScalerOptions&)> changes = {
      [](GradScalerOptions& o) { o.init_scale = 0; },        [](GradScalerOptions& o) { o.init_scale = -1; },
      [](GradScalerOptions& o) { o.init_scale = kNaN; },     [](GradScalerOptions& o) { o.init_scale = 1e39; },
      [](GradScalerOptions& o) { o.init_scale = 1e-50; },    [](GradScalerOptions& o) { o.growth_factor = 1; },
      [](GradScalerOptions& o) { o.growth_factor = kInf; },  [](GradScalerOptions& o) { o.growth_factor = kNaN; },
      [](GradScalerOptions& o) { o.backoff_factor = 1; },    [](GradScalerOptions& o) { o.backoff_factor = 0; },
      [](GradScalerOptions& o) { o.backoff_factor = kNaN; }, [](GradScalerOptions& o) { o.growth_interval = 0; },
  };
  for (const auto change : changes) {
    CHECK_THROWS_AS(construct(change, true), c10::ValueError);
    CHECK_FALSE(construct(change, false));
  }
}

TEST_CASE("setters and update refuse bad values and keep the old ones") {
  GradScaler scaler = cpu_scaler(4.0);
  scaler.scale(torch::ones({}));
  for (const double value : {0.0, -1.0, kNaN, static_cast<double>(kInf)}) {
    CHECK_THROWS_AS(scaler.set_growth_factor(value), c10::ValueError);
    CHECK_THROWS_AS(scaler.set_backoff_factor(value), c10::ValueError);
    CHECK_THROWS_AS(scaler.update(value), c10::ValueError);
  }
  CHECK_THROWS_AS(scaler.set_growth_interval(0), c10::ValueError);
  CHECK(scaler.get_growth_factor() == 2.0);
  CHECK(scaler.get_backoff_factor() == 0.5);
  CHECK(scaler.get_growth_interval() == 2000);
  CHECK(scaler.get_scale() == 4.0);
  scaler.set_growth_factor(1.0);
  scaler.set_backoff_factor(1.0);
  scaler.update(32.0);
  CHECK(scaler.get_scale() == 32.0);
}

TEST_CASE("state survives pickling and is restored before and after the first scale") {
  GradScaler source = cpu_scaler(64.0, 7);
  source.set_growth_factor(3.0);
  at::Tensor parameter = parameter_with_gradient(torch::ones({2}));
  torch::optim::SGD optimizer({parameter}, 0.1);
  source.scale(torch::ones({}));
  source.step(optimizer);
  source.update();

  GradScaler fresh = cpu_scaler();
  GradScaler used = cpu_scaler();
  used.scale(torch::ones({}));
  for (GradScaler* scaler : {&fresh, &used}) {
    scaler->load_state_dict(through_pickle(source.state_dict()));
    const GradScaler::StateDict state = scaler->state_dict();
    CHECK(state.at("scale").toDouble() == 64.0);
    CHECK(state.at("growth_factor").toDouble() == 3.0);
    CHECK(state.at("backoff_factor").toDouble() == 0.5);
    CHECK(state.at("growth_interval").toInt() == 7);
    CHECK(state.at("_growth_tracker").toInt() == 1);
  }
}

TEST_CASE("state that breaks a rule is refused and nothing of it is loaded") {
  GradScaler scaler = cpu_scaler(4.0);
  scaler.scale(torch::ones({}));
  const std::vector<std::pair<std::string, at::IValue>> bad_entries = {
      {"scale", 0.0},
      {"scale", kNaN},
      {"scale", "large"},
      {"growth_factor", -1.0},
      {"backoff_factor", static_cast<double>(kInf)},
      {"growth_interval", 0},
      {"growth_interval", 2.5},
      {"_growth_tracker", -1},
      {"_growth_tracker", int64_t{1} << 40},
  };
  for (const auto& [key, value] : bad_entries) {
    GradScaler::StateDict state = cpu_scaler(64.0, 7).state_dict();
    state.insert_or_assign(key, value);
    CHECK_THROWS_AS(scaler.load_state_dict(state), c10::Error);
    REQUIRE(state.erase(key) == 1);
    CHECK_THROWS_WITH(scaler.load_state_dict(state), ContainsSubstring("no key '" + key + "'"));
  }
  CHECK_THROWS_WITH(
      scaler.load_state_dict(GradScaler(at::kCPU, {.enabled = false}).state_dict()),
      ContainsSubstring("The source state dict is empty"));
  CHECK_THROWS_AS(scaler.load_state_dict(1.0), c10::TypeError);
  CHECK(scaler.get_scale() == 4.0);
  CHECK(scaler.get_growth_interval() == 2000);
}

TEST_CASE("disabled scaler only steps") {
  GradScaler scaler(at::kCPU, {.enabled = false});
  at::Tensor parameter = parameter_with_gradient(torch::full({2}, kInf));
  torch::optim::SGD optimizer({parameter}, 0.1);
  const at::Tensor loss = torch::ones({}, at::kInt);
  CHECK(scaler.scale(loss).is_same(loss));
  scaler.unscale_(optimizer);
  CHECK(scaler.step(optimizer));
  scaler.update();
  scaler.update(-1.0);
  CHECK(scaler.get_scale() == 1.0);
  CHECK(scaler.state_dict().empty());
  CHECK(parameter.isinf().all().item<bool>());
}

TEST_CASE("scaler for CUDA disables itself where there is none") {
  if (at::globalContext().hasCUDA()) {
    AMPCAST_SKIP("CUDA is available");
  }
  CHECK_FALSE(GradScaler().is_enabled());
}

TEST_CASE("moved scaler carries its state") {
  GradScaler source = cpu_scaler(64.0);
  source.scale(torch::ones({}));
  const GradScaler scaler = std::move(source);
  CHECK(scaler.get_scale() == 64.0);
}
