#pragma once

#include <ampcast/export.h>

#include <ATen/core/Dict.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace ampcast {

/// Constructor arguments of `GradScaler`, with torch's names and defaults.
struct GradScalerOptions {
  /// First scale; finite and above 0.
  double init_scale = 65536.0;
  /// Multiplies the scale after `growth_interval` steps in a row without Inf or NaN; above 1.
  double growth_factor = 2.0;
  /// Multiplies the scale after a step with Inf or NaN; above 0 and below 1.
  double backoff_factor = 0.5;
  /// Steps without Inf or NaN before the scale grows; at least 1.
  int64_t growth_interval = 2000;
  /// When false, `scale` returns its argument, `step` steps, and everything else does nothing.
  bool enabled = true;
};

/// Scales losses so that float16 gradients do not underflow, and skips optimizer steps whose gradients overflowed:
/// `torch.amp.GradScaler` for `torch::optim`, with its state machine, messages and `state_dict`.
///
///     scaler.scale(loss).backward();
///     scaler.step(optimizer);
///     scaler.update();
///
/// The scale and growth tracker live on the device of the first tensor given to `scale`. An instance belongs to one thread,
/// can be moved but not copied, and knows an optimizer by its address until the next `update`.
class AMPCAST_API GradScaler {
 public:
  using StateDict = c10::Dict<std::string, at::IValue>;

  /// `device` is the type of device the losses live on. A scaler for CUDA where no CUDA device is available warns and
  /// disables itself, as torch's does.
  /// \throws c10::ValueError if an option breaks its rule above (checked only when enabled).
  explicit GradScaler(at::DeviceType device = at::kCUDA, GradScalerOptions options = {});
  GradScaler(const GradScaler&) = delete;
  GradScaler& operator=(const GradScaler&) = delete;
  GradScaler(GradScaler&&) noexcept = default;
  GradScaler& operator=(GradScaler&&) noexcept = default;
  ~GradScaler() = default;

  /// Multiplies `output` by the current scale; shape and device stay.
  ///
  /// A float16 loss receives the scale as its gradient in float16, which overflows from 65520 on: compute the loss in float32.
  /// \throws c10::TypeError if `output` is undefined or neither floating point nor complex.
  at::Tensor scale(const at::Tensor& output);

  /// Multiplies each of `outputs`, which may live on different devices, by the current scale.
  std::vector<at::Tensor> scale(at::TensorList outputs);

  /// Divides the gradients of `optimizer` by the scale in place and records whether any of them is Inf or NaN afterwards.
  ///
  /// Called by `step` where the program did not; call it first to clip or inspect gradients. Never waits for a device.
  /// \throws c10::Error when called before `scale`, twice between updates, or after `step`.
  /// \throws c10::ValueError if a gradient is float16.
  void unscale_(torch::optim::Optimizer& optimizer);

  /// Unscales the gradients of `optimizer` if `unscale_` was not called, and clips their norm to `max_norm`:
  /// `unscale_` and `torch::nn::utils::clip_grad_norm_` in one call, in two passes over the gradients at most.
  ///
  /// Dense gradients with `norm_type` 2 or infinity take the fused operators, everything else torch's function.
  /// May be called again; a scaler that is disabled only clips. Waits for a device only for `error_if_nonfinite`, and in
  /// torch's function.
  /// \returns the norm that the unscaled gradients had, shape (), on the first gradient's device; float32 when fused.
  /// \throws c10::Error as `unscale_` but for being called again; when the norm is not finite and `error_if_nonfinite` is
  ///   true, and then the gradients are unscaled and not clipped, and `step` will skip.
  /// \throws c10::ValueError if `max_norm` is negative or NaN.
  at::Tensor clip_grad_norm_(
      torch::optim::Optimizer& optimizer,
      double max_norm,
      double norm_type = 2.0,
      bool error_if_nonfinite = false);

  /// Steps `optimizer` unless its unscaled gradients hold Inf or NaN; waits for the device, as torch does.
  ///
  /// \returns true if the step was taken, false if it was skipped.
  /// \throws c10::Error when called before `scale`, twice between updates, or when `optimizer` has no gradients.
  bool step(torch::optim::Optimizer& optimizer);

  /// Backs the scale off if any optimizer's gradients overflowed, else counts towards growth; then begins a new iteration.
  /// \throws c10::Error if no gradients were checked since the last call.
  void update();

  /// Sets the scale to `new_scale` and begins a new iteration; the growth tracker stays.
  /// \throws c10::ValueError if `new_scale` is not finite or not above 0.
  void update(double new_scale);

  /// The current scale; 1 when disabled. Waits for the device.
  double get_scale() const;
  double get_growth_factor() const;
  double get_backoff_factor() const;
  int64_t get_growth_interval() const;
  /// Setters take effect from the next `update`. Factors of exactly 1 are accepted and hold the scale still.
  /// \throws c10::ValueError if a factor is not finite or not above 0, or the interval is below 1.
  void set_growth_factor(double growth_factor);
  void set_backoff_factor(double backoff_factor);
  void set_growth_interval(int64_t growth_interval);
  bool is_enabled() const;

  /// The state under torch's five keys: `scale`, `growth_factor`, `backoff_factor` (double), `growth_interval` and
  /// `_growth_tracker` (int). Empty when disabled. Waits for the device. Written with `torch::pickle_save`, Python loads it
  /// with `torch.load`, under `torch.serialization.safe_globals([restore_type_tag])` since C++ tags the types of dicts
  /// (`from torch.jit._pickle import restore_type_tag`); what Python writes with `torch.save`, `torch::pickle_load` reads.
  StateDict state_dict() const;

  /// Restores what `state_dict` returned, here or in Python (the result of `torch::pickle_load`). Does nothing when disabled;
  /// changes nothing when it throws.
  /// \throws c10::Error if `state` is no dict, is empty, lacks a key or has a value of another type; c10::ValueError if a
  ///   value breaks its rule.
  void load_state_dict(const at::IValue& state);

 private:
  enum class Stage { kReady, kUnscaled, kStepped };
  struct OptimizerState {
    Stage stage = Stage::kReady;
    std::vector<at::Tensor> found_inf; // one a device
  };

  void require_scale(const char* caller) const;
  OptimizerState& state_to_clip(const torch::optim::Optimizer& optimizer);
  at::Tensor multiply_by_scale(const at::Tensor& output);
  int64_t growth_tracker() const;

  GradScalerOptions options_;
  int64_t init_growth_tracker_ = 0;
  at::Tensor scale_; // made, with the tracker, on the device of the first output
  at::Tensor growth_tracker_;
  std::unordered_map<const torch::optim::Optimizer*, OptimizerState> optimizer_states_;
};

} // namespace ampcast
