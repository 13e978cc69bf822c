#pragma once

#include "autocast/cast_rules.h"

#include <ATen/Operators.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include <concepts>
#include <optional>

/// The autocast kernel: one template, instantiated for each listed overload and device.
namespace ampcast::autocast {

/// The overload that an op with rule `fp32_dtype` hands over to when it has no dtype argument of its own.
template <class AtenOp>
struct DtypeOverload {
  using type = void;
};
template <>
struct DtypeOverload<at::_ops::norm_Scalar> {
  using type = at::_ops::norm_ScalarOpt_dtype;
};
template <>
struct DtypeOverload<at::_ops::norm_ScalarOpt_dim> {
  using type = at::_ops::norm_ScalarOpt_dim_dtype;
};
#if !AMPCAST_TORCH_AT_LEAST(2, 13)
template <>
struct DtypeOverload<at::_ops::norm_names_ScalarOpt_dim> {
  using type = at::_ops::norm_names_ScalarOpt_dim_dtype;
};
#endif

/// Raises for an op that no cast makes safe; under the policy "torch" with torch's text of the one op that torch bans.
[[noreturn]] void throw_banned(const char* op);

template <class AtenOp, c10::DeviceType kDevice, Op kOp, class Signature = typename AtenOp::schema>
struct AutocastKernel;

/// `call` does what torch's kernel for the same rule does: excludes this device's autocast key, so that the ops inside
/// a composite op are not cast again, casts, and calls the op through the full dispatcher.
template <class AtenOp, c10::DeviceType kDevice, Op kOp, class Ret, class... Args>
struct AutocastKernel<AtenOp, kDevice, kOp, Ret(Args...)> {
  static Ret call(Args... args) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(
        at::autocast::get_autocast_dispatch_key_from_device_type(kDevice));
    switch (active_rule<kDevice>(kOp)) {
      case CastRule::lower:
        return call_cast(at::autocast::get_lower_precision_fp_from_device_type(kDevice), args...);
      case CastRule::fp32:
        return call_cast(at::kFloat, args...);
      case CastRule::promote:
        return call_cast(widest(args...), args...);
      case CastRule::fp32_dtype:
        return call_with_dtype(args...);
      case CastRule::banned:
        throw_banned(AtenOp::name);
      case CastRule::unlisted:
        break;
    }
    return AtenOp::call(args...);
  }

 private:
  static Ret call_cast(at::ScalarType dtype, const Args&... args) {
    return AtenOp::call(at::autocast::cached_cast(dtype, args, kDevice)...);
  }

  static at::ScalarType widest(const Args&... args) {
    return at::autocast::promote_type(at::autocast::get_lower_precision_fp_from_device_type(kDevice), kDevice, args...);
  }

  static Ret call_with_dtype(const Args&... args) {
    using Overload = typename DtypeOverload<AtenOp>::type;
    if constexpr (!std::same_as<Overload, void>) {
      return Overload::call(args..., at::autocast::type_from_firstarg(kDevice, at::kFloat, args...));
    } else if constexpr ((std::same_as<std::remove_cvref_t<Args>, std::optional<at::ScalarType>> || ...)) {
      if (at::autocast::firstarg_is_eligible(kDevice, args...)) {
        return AtenOp::call(at::autocast::set_opt_dtype(at::kFloat, args)...);
      }
    }
    return AtenOp::call(args...);
  }
};

/// Registers the kernel of one overload, unless the device's list does not have it.
template <class AtenOp, c10::DeviceType kDevice, Op kOp, CastRule kListed>
void register_kernel(torch::Library& library) {
  if constexpr (kListed != CastRule::unlisted) {
    library.impl(qualified_name<AtenOp>().c_str(), &AutocastKernel<AtenOp, kDevice, kOp>::call);
  }
}

} // namespace ampcast::autocast
