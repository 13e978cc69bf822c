#include <ampcast/grad_scaler.h>

#include "scaler/scaler_options.h"

#include <ATen/core/jit_type.h>
#include <c10/util/Exception.h>

namespace ampcast {

namespace {

constexpr const char* kScaleKey = "scale";
constexpr const char* kGrowthFactorKey = "growth_factor";
constexpr const char* kBackoffFactorKey = "backoff_factor";
constexpr const char* kGrowthIntervalKey = "growth_interval";
constexpr const char* kGrowthTrackerKey = "_growth_tracker";

const at::IValue& value_at(const c10::impl::GenericDict& state, const char* key) {
  const auto entry = state.find(key);
  TORCH_CHECK(entry != state.end(), "GradScaler::load_state_dict: the state has no key '", key, "'.");
  return entry->value();
}

double number_at(const c10::impl::GenericDict& state, const char* key) {
  const at::IValue& value = value_at(state, key);
  TORCH_CHECK_TYPE(
      value.isScalar(), "GradScaler::load_state_dict: '", key, "' must be a number, got ", value.tagKind(), ".");
  return value.toScalar().toDouble();
}

int64_t integer_at(const c10::impl::GenericDict& state, const char* key) {
  const at::IValue& value = value_at(state, key);
  TORCH_CHECK_TYPE(
      value.isInt(), "GradScaler::load_state_dict: '", key, "' must be an int, got ", value.tagKind(), ".");
  return value.toInt();
}

} // namespace

int64_t GradScaler::growth_tracker() const {
  return growth_tracker_.defined() ? growth_tracker_.item<int32_t>() : init_growth_tracker_;
}

GradScaler::StateDict GradScaler::state_dict() const {
  StateDict state = c10::impl::toTypedDict<std::string, at::IValue>(
      c10::impl::GenericDict(c10::StringType::get(), c10::AnyType::get()));
  if (options_.enabled) {
    state.insert(kScaleKey, get_scale());
    state.insert(kGrowthFactorKey, options_.growth_factor);
    state.insert(kBackoffFactorKey, options_.backoff_factor);
    state.insert(kGrowthIntervalKey, options_.growth_interval);
    state.insert(kGrowthTrackerKey, growth_tracker());
  }
  return state;
}

void GradScaler::load_state_dict(const at::IValue& state) {
  if (!options_.enabled) {
    return;
  }
  TORCH_CHECK_TYPE(
      state.isGenericDict(), "GradScaler::load_state_dict: `state` must be a dict, got ", state.tagKind(), ".");
  const c10::impl::GenericDict entries = state.toGenericDict();
  TORCH_CHECK(
      !entries.empty(),
      "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.");
  GradScalerOptions options = options_;
  options.init_scale = scaler::checked_scale(number_at(entries, kScaleKey), kScaleKey);
  options.growth_factor = scaler::checked_factor(number_at(entries, kGrowthFactorKey), kGrowthFactorKey);
  options.backoff_factor = scaler::checked_factor(number_at(entries, kBackoffFactorKey), kBackoffFactorKey);
  options.growth_interval = scaler::checked_growth_interval(integer_at(entries, kGrowthIntervalKey));
  init_growth_tracker_ = scaler::checked_growth_tracker(integer_at(entries, kGrowthTrackerKey));
  options_ = options;
  if (scale_.defined()) {
    scale_.fill_(options_.init_scale);
    growth_tracker_.fill_(init_growth_tracker_);
  }
}

} // namespace ampcast
