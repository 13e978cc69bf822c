#include <ampcast/grad_scaler.h>

#include "common/nvtx.h"
#include "scaler/gradients.h"
#include "scaler/scaler_options.h"

#include <ampcast/ops.h>

#include <ATen/Context.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <torch/nn/utils/clip_grad.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace ampcast {

namespace {

void check_options(const GradScalerOptions& options) {
  TORCH_CHECK_VALUE(!(options.growth_factor <= 1.0), "The growth factor must be > 1.0.");
  TORCH_CHECK_VALUE(!(options.backoff_factor >= 1.0), "The backoff factor must be < 1.0.");
  scaler::checked_scale(options.init_scale, "init_scale");
  scaler::checked_factor(options.growth_factor, "growth_factor");
  scaler::checked_factor(options.backoff_factor, "backoff_factor");
  scaler::checked_growth_interval(options.growth_interval);
}

bool cuda_is_missing(at::DeviceType device) {
  return device == at::kCUDA && !at::globalContext().hasCUDA();
}

void check_is_scalable(const at::Tensor& output) {
  TORCH_CHECK_TYPE(output.defined(), "GradScaler::scale: `outputs` must be defined tensors, got an undefined one.");
  TORCH_CHECK_TYPE(
      output.is_floating_point() || output.is_complex(),
      "GradScaler.scale: a loss must be floating point or complex, got ", output.scalar_type(), ".");
}

scaler::Gradients gradients_of(const torch::optim::Optimizer& optimizer) {
  scaler::Gradients gradients;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      gradients.add(parameter);
    }
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      gradients.have_kernels(),
      "GradScaler::unscale_: ampcast has no kernels for the device or layout of a gradient; see ampcast/ops.h for what "
      "they take.");
  return gradients;
}

void check_is_finite(const at::Tensor& norm, double norm_type) {
  TORCH_CHECK(
      std::isfinite(norm.item<float>()), "The total norm of order ", norm_type,
      " for gradients from `parameters` is non-finite, so it cannot be clipped. To disable this error and scale the ",
      "gradients with the non-finite norm anyway, set `error_if_nonfinite=false`");
}

/// For what the fused operators do not do.
at::Tensor torch_clip_grad_norm_(
    const torch::optim::Optimizer& optimizer,
    double max_norm,
    double norm_type,
    bool error_if_nonfinite) {
  std::vector<at::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  }
  return at::scalar_tensor(torch::nn::utils::clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite));
}

} // namespace

GradScaler::GradScaler(at::DeviceType device, GradScalerOptions options) : options_(options) {
  if (options_.enabled && cuda_is_missing(device)) {
    TORCH_WARN("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.");
    options_.enabled = false;
  }
  if (options_.enabled) {
    check_options(options_);
  }
}

void GradScaler::require_scale(const char* caller) const {
  TORCH_CHECK(
      scale_.defined(), "Attempted ", caller,
      " but _scale is None.  This may indicate your script did not use scaler.scale(loss or outputs) ",
      "earlier in the iteration.");
}

at::Tensor GradScaler::multiply_by_scale(const at::Tensor& output) {
  if (!scale_.defined()) {
    const auto options = at::TensorOptions(output.device());
    growth_tracker_ = at::full({}, init_growth_tracker_, options.dtype(at::kInt));
    scale_ = at::full({}, options_.init_scale, options.dtype(at::kFloat));
  }
  return output.mul(scale_.to(output.device(), at::kFloat, /*non_blocking=*/true));
}

at::Tensor GradScaler::scale(const at::Tensor& output) {
  AMPCAST_NVTX_RANGE("ampcast::scale");
  if (!options_.enabled) {
    return output;
  }
  check_is_scalable(output);
  return multiply_by_scale(output);
}

std::vector<at::Tensor> GradScaler::scale(at::TensorList outputs) {
  AMPCAST_NVTX_RANGE("ampcast::scale");
  std::vector<at::Tensor> scaled(outputs.begin(), outputs.end());
  if (options_.enabled) {
    std::for_each(scaled.begin(), scaled.end(), check_is_scalable);
    std::transform(scaled.begin(), scaled.end(), scaled.begin(), [this](const at::Tensor& output) {
      return multiply_by_scale(output);
    });
  }
  return scaled;
}

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  if (!options_.enabled) {
    return;
  }
  require_scale("unscale_");
  OptimizerState& state = optimizer_states_[&optimizer];
  TORCH_CHECK(
      state.stage != Stage::kUnscaled, "unscale_() has already been called on this optimizer since the last update().");
  TORCH_CHECK(state.stage != Stage::kStepped, "unscale_() is being called after step().");
  const at::Tensor found_inf = at::zeros({}, scale_.options());
  state.found_inf =
      gradients_of(optimizer).unscale_(scaler::inverse_of_scale(scale_), found_inf, /*allow_float16=*/false);
  state.stage = Stage::kUnscaled;
}

GradScaler::OptimizerState& GradScaler::state_to_clip(const torch::optim::Optimizer& optimizer) {
  require_scale("clip_grad_norm_");
  OptimizerState& state = optimizer_states_[&optimizer];
  TORCH_CHECK(state.stage != Stage::kStepped, "clip_grad_norm_() is being called after step().");
  return state;
}

at::Tensor GradScaler::clip_grad_norm_(
    torch::optim::Optimizer& optimizer,
    double max_norm,
    double norm_type,
    bool error_if_nonfinite) {
  if (!options_.enabled) {
    return torch_clip_grad_norm_(optimizer, max_norm, norm_type, error_if_nonfinite);
  }
  scaler::checked_max_norm(max_norm);
  OptimizerState& state = state_to_clip(optimizer);
  const bool is_first = state.stage == Stage::kReady;
  scaler::Gradients gradients = gradients_of(optimizer);
  if (!gradients.can_clip(norm_type)) {
    if (is_first) {
      unscale_(optimizer);
    }
    return torch_clip_grad_norm_(optimizer, max_norm, norm_type, error_if_nonfinite);
  }
  auto [found_inf, norm] = gradients.unscale_and_clip_(
      is_first ? scaler::inverse_of_scale(scale_) : at::ones({}, scale_.options()), at::zeros({}, scale_.options()),
      /*allow_float16=*/false, {max_norm, norm_type, error_if_nonfinite});
  if (is_first) {
    state = {Stage::kUnscaled, std::move(found_inf)};
  }
  if (error_if_nonfinite) {
    check_is_finite(norm, norm_type);
  }
  return norm;
}

bool GradScaler::step(torch::optim::Optimizer& optimizer) {
  AMPCAST_NVTX_RANGE("ampcast::step");
  if (!options_.enabled) {
    optimizer.step();
    return true;
  }
  require_scale("step");
  OptimizerState& state = optimizer_states_[&optimizer];
  TORCH_CHECK(state.stage != Stage::kStepped, "step() has already been called since the last update().");
  if (state.stage == Stage::kReady) {
    unscale_(optimizer);
  }
  TORCH_CHECK(!state.found_inf.empty(), "No inf checks were recorded for this optimizer.");
  const bool finite = std::none_of(
      state.found_inf.begin(), state.found_inf.end(), [](const at::Tensor& found) { return found.item<float>() != 0; });
  if (finite) {
    optimizer.step();
  }
  state.stage = Stage::kStepped;
  return finite;
}

void GradScaler::update() {
  AMPCAST_NVTX_RANGE("ampcast::update");
  if (!options_.enabled) {
    return;
  }
  require_scale("update");
  std::vector<at::Tensor> found_inf;
  for (const auto& [optimizer, state] : optimizer_states_) {
    found_inf.insert(found_inf.end(), state.found_inf.begin(), state.found_inf.end());
  }
  update_scale_(
      scale_, growth_tracker_, scaler::combine_found_inf(found_inf, scale_.device()), options_.growth_factor,
      options_.backoff_factor, options_.growth_interval);
  optimizer_states_.clear();
}

void GradScaler::update(double new_scale) {
  AMPCAST_NVTX_RANGE("ampcast::update");
  if (!options_.enabled) {
    return;
  }
  require_scale("update");
  scale_.fill_(scaler::checked_scale(new_scale, "new_scale"));
  optimizer_states_.clear();
}

double GradScaler::get_scale() const {
  if (!options_.enabled) {
    return 1.0;
  }
  return scale_.defined() ? scale_.item<float>() : options_.init_scale;
}

double GradScaler::get_growth_factor() const {
  return options_.growth_factor;
}

double GradScaler::get_backoff_factor() const {
  return options_.backoff_factor;
}

int64_t GradScaler::get_growth_interval() const {
  return options_.growth_interval;
}

void GradScaler::set_growth_factor(double growth_factor) {
  options_.growth_factor = options_.enabled ? scaler::checked_factor(growth_factor, "growth_factor") : growth_factor;
}

void GradScaler::set_backoff_factor(double backoff_factor) {
  options_.backoff_factor =
      options_.enabled ? scaler::checked_factor(backoff_factor, "backoff_factor") : backoff_factor;
}

void GradScaler::set_growth_interval(int64_t growth_interval) {
  options_.growth_interval = options_.enabled ? scaler::checked_growth_interval(growth_interval) : growth_interval;
}

bool GradScaler::is_enabled() const {
  return options_.enabled;
}

} // namespace ampcast
