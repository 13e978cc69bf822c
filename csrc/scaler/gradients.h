#pragma once

#include <ampcast/export.h>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace ampcast::scaler {

/// Whether ampcast's operators can process `tensor`: its backend has their kernels and it is no Python tensor subclass.
AMPCAST_API bool has_kernels(const at::Tensor& tensor);

/// The gradients of an optimizer's parameters, grouped by device in the order in which devices first appear.
///
/// Of a sparse gradient the values are processed. A float16 one is coalesced first and replaces the parameter's gradient,
/// since adding up duplicate entries may overflow.
class AMPCAST_API Gradients {
 public:
  /// Adds the gradient of `parameter`, if it has one.
  /// \throws c10::NotImplementedError, with torch's text, if torch and ampcast lack its dtype.
  void add(const at::Tensor& parameter);

  /// Whether ampcast has kernels for all gradients; if not, the other members must not be called.
  bool have_kernels() const {
    return have_kernels_;
  }

  /// Calls `ampcast::unscale_` once a device and returns one `found_inf` a device, each begun as a copy of `found_inf`.
  ///
  /// Never waits for a device. Nothing is written when it throws.
  /// \throws c10::ValueError if a gradient is float16 and `allow_float16` is false.
  /// \throws c10::Error if a gradient overlaps itself.
  std::vector<at::Tensor> unscale_(const at::Tensor& inv_scale, const at::Tensor& found_inf, bool allow_float16);

  /// Whether `unscale_and_clip_` can do it: no gradient is sparse and the norm is one that `ampcast::unscale_norm_` takes.
  bool can_clip(double norm_type) const;

  /// To what norm, and of what kind, `unscale_and_clip_` clips.
  struct ClipOptions {
    double max_norm;
    double norm_type;
    bool error_if_nonfinite;
  };

  /// What `unscale_and_clip_` returns: one `found_inf` a device, and the norm of the unscaled gradients, a float32 tensor of
  /// shape () on the device of the first of them.
  struct Clipped {
    std::vector<at::Tensor> found_inf;
    at::Tensor norm;
  };

  /// As `unscale_`, by `ampcast::unscale_norm_`; then clips by `ampcast::clip_`, unless the norm is not finite and
  /// `error_if_nonfinite` asks to leave that to the caller.
  ///
  /// Waits for the device only to test the norm for `error_if_nonfinite`.
  /// \throws c10::Error as `unscale_`.
  Clipped unscale_and_clip_(
      const at::Tensor& inv_scale,
      const at::Tensor& found_inf,
      bool allow_float16,
      const ClipOptions& options);

  /// As `unscale_`, by `ampcast::check_finite_`: writes no gradient and accepts float16.
  std::vector<at::Tensor> check_finite(const at::Tensor& inv_scale, const at::Tensor& found_inf);

 private:
  struct DeviceGroup {
    at::Device device;
    std::vector<at::Tensor> values;
  };

  void add_sparse(const at::Tensor& parameter);
  void add_values(const at::Tensor& values);
  void coalesce_float16();
  void check_can_unscale(bool allow_float16) const;
  DeviceGroup& group_of(at::Device device);
  template <typename Operation>
  std::vector<at::Tensor> for_each_device(const at::Tensor& found_inf, Operation operation);

  std::vector<DeviceGroup> groups_;
  size_t latest_ = 0; // the group that was added to last
  std::vector<at::Tensor> parameters_with_float16_sparse_gradient_;
  bool have_kernels_ = true;
  bool have_float16_ = false;
  bool have_sparse_ = false;
};

/// The factor that undoes `scale`: its reciprocal, taken in double and rounded to float32.
AMPCAST_API at::Tensor inverse_of_scale(const at::Tensor& scale);

/// One element on `device` that is not 0 if and only if one of `found_inf` is: their maximum. Modifies none of them.
AMPCAST_API at::Tensor combine_found_inf(at::TensorList found_inf, at::Device device);

} // namespace ampcast::scaler
