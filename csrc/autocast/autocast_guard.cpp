#include <ampcast/autocast.h>

#include "autocast/install_kernels.h"
#include "autocast/policy_slot.h"
#include "common/nvtx.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace ampcast {

namespace {

using c10::DeviceType;
using c10::ScalarType;

void check_device(const char* function, DeviceType device) {
  const auto& devices = at::autocast::_AUTOCAST_SUPPORTED_DEVICES;
  TORCH_CHECK(
      std::ranges::find(devices, device) != devices.end() && device != autocast::kSlotDevice, function,
      ": `device` must be a device type that torch autocasts, such as cpu or cuda, got ",
      c10::DeviceTypeName(device, /*lower_case=*/true));
}

// The list of dtypes that a PrivateUse1 backend autocasts to is known to its Python module only; CUDA takes any, as in
// torch.
bool autocasts_to(DeviceType device, ScalarType dtype) {
  return dtype == ScalarType::BFloat16 || dtype == ScalarType::Half || device == DeviceType::CUDA ||
      device == DeviceType::PrivateUse1;
}

bool is_usable(DeviceType device, ScalarType dtype) {
  if (device == DeviceType::CUDA && !at::globalContext().hasCUDA()) {
    TORCH_WARN("AutocastGuard: CUDA is not available. Disabling autocast.");
    return false;
  }
  if (!autocasts_to(device, dtype)) {
    TORCH_WARN(
        "AutocastGuard: ", c10::DeviceTypeName(device, /*lower_case=*/true), " autocasts to bfloat16 or float16, got ",
        dtype, ". Disabling autocast.");
    return false;
  }
  return true;
}

// Any device but the slot's, and but `device`, whose region is about to change it.
bool is_enabled_elsewhere(DeviceType device) {
  return std::ranges::any_of(at::autocast::_AUTOCAST_SUPPORTED_DEVICES, [device](DeviceType other) {
    return other != device && other != autocast::kSlotDevice && at::autocast::is_autocast_enabled(other);
  });
}

// A slot that is on while nothing is autocast would make torch believe that something is.
autocast::PolicySlot region_slot(DeviceType device, bool enabled, autocast::PolicyId policy) {
  if (enabled) {
    return autocast::slot_of(policy);
  }
  return is_enabled_elsewhere(device) ? autocast::read_slot() : autocast::slot_of(autocast::PolicyId::torch);
}

detail::AutocastState resolve(DeviceType device, const AutocastOptions& options) {
  check_device("AutocastGuard", device);
  const autocast::PolicyId policy = autocast::policy_id(options.policy);
  const ScalarType dtype = options.dtype.value_or(at::autocast::get_autocast_dtype(device));
  const bool enabled = options.enabled && dtype != ScalarType::Float && is_usable(device, dtype);
  const autocast::PolicySlot slot = region_slot(device, enabled, policy);
  const bool cache_enabled = options.cache_enabled.value_or(at::autocast::is_autocast_cache_enabled());
  return {device, dtype, enabled, cache_enabled, slot.enabled, slot.dtype};
}

detail::AutocastState current_state(DeviceType device) {
  const autocast::PolicySlot slot = autocast::read_slot();
  return {
      device,
      at::autocast::get_autocast_dtype(device),
      at::autocast::is_autocast_enabled(device),
      at::autocast::is_autocast_cache_enabled(),
      slot.enabled,
      slot.dtype};
}

void set_state(const detail::AutocastState& state) {
  at::autocast::set_autocast_enabled(state.device, state.enabled);
  at::autocast::set_autocast_dtype(state.device, state.dtype);
  at::autocast::set_autocast_cache_enabled(state.cache_enabled);
  autocast::write_slot({state.slot_enabled, state.slot_dtype});
}

} // namespace

AutocastGuard::AutocastGuard(DeviceType device, AutocastOptions options) {
  autocast::install_kernels();
  const detail::AutocastState state = resolve(device, options);
  saved_ = current_state(device);
  range_ = nvtx::start_range("ampcast::autocast");
  set_state(state);
  at::autocast::increment_nesting();
}

AutocastGuard::AutocastGuard(DeviceType device, ScalarType dtype)
    : AutocastGuard(device, AutocastOptions{.dtype = dtype}) {}

AutocastGuard::~AutocastGuard() {
  if (at::autocast::decrement_nesting() == 0) {
    at::autocast::clear_cache();
  }
  set_state(saved_);
  nvtx::end_range(range_);
}

AutocastDisabledGuard::AutocastDisabledGuard() : excluded_(c10::autocast_dispatch_keyset) {}

bool is_enabled(std::optional<DeviceType> device) {
  if (!device) {
    return is_enabled_elsewhere(autocast::kSlotDevice);
  }
  check_device("is_enabled", *device);
  return at::autocast::is_autocast_enabled(*device);
}

ScalarType get_dtype(DeviceType device) {
  check_device("get_dtype", device);
  return at::autocast::get_autocast_dtype(device);
}

std::string_view get_policy() {
  return autocast::policy_name(autocast::active_policy());
}

} // namespace ampcast
