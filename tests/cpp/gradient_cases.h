#pragma once

// The gradients that the tests of the scaler's operators run over. Include after torch's headers.

#include <ATen/ops/isnan.h>
#include <ATen/ops/view_as_real.h>
#include <torch/types.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace gradient_cases {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

inline const std::vector<at::ScalarType> kRealDtypes = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};
inline const std::vector<at::ScalarType> kDtypes = {at::kFloat,    at::kDouble,       at::kHalf,
                                                    at::kBFloat16, at::kComplexFloat, at::kComplexDouble};

// Nothing, less than a vector, a vector and its neighbours, several with a tail.
inline const std::vector<int64_t> kSizes = {0,  1,  2,  3,  7,  8,  9,   15,  16,  17,
                                            31, 32, 33, 63, 64, 65, 127, 129, 257, 1001};

inline const std::vector<float> kInvScales = {1.0F, 0x1p-16F, 0.3F, 0x1p20F, kInf};

inline at::Tensor scalar(float value) {
  return torch::full({1}, value);
}

inline at::Tensor real_view(const at::Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor) : tensor;
}

/// Bits of `tensor` as integers, with one value for every NaN.
inline at::Tensor bits(const at::Tensor& tensor) {
  const at::Tensor real = real_view(tensor).contiguous();
  const at::ScalarType integer = real.itemsize() == 8 ? at::kLong : real.itemsize() == 4 ? at::kInt : at::kShort;
  return real.view(integer).masked_fill(at::isnan(real), -1);
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && bits(a).equal(bits(b));
}

/// What `unscale_` must leave: 16-bit products rounded to float32 first, each product taken exactly in float64 before.
inline at::Tensor unscaled(const at::Tensor& grad, float inv_scale) {
  const at::Tensor real = real_view(grad);
  const at::Tensor exact = real.to(at::kDouble) * static_cast<double>(inv_scale);
  const at::Tensor rounded = real.scalar_type() == at::kDouble ? exact : exact.to(at::kFloat).to(real.scalar_type());
  return grad.is_complex() ? at::view_as_complex(rounded.contiguous()) : rounded;
}

inline bool all_finite(const at::Tensor& tensor) {
  return real_view(tensor).isfinite().all().item<bool>();
}

/// A gradient in a memory layout of its own, with the storage around it to show that gaps are left alone.
struct Layout {
  std::string name;
  at::Tensor storage;
  at::Tensor view;
};

/// Every kind of layout: no gaps in any order, gaps between rows, between elements, both, no dimensions at all.
inline std::vector<Layout> layouts(at::ScalarType dtype) {
  const auto make = [dtype](at::IntArrayRef sizes) { return torch::randn(sizes).to(dtype); };
  std::vector<Layout> all;
  const auto add = [&all](const char* name, const at::Tensor& storage, const at::Tensor& view) {
    all.push_back({name, storage, view});
  };
  at::Tensor t = make({7, 11});
  add("transposed", t, t.t());
  t = make({2, 3, 5, 7}).contiguous(at::MemoryFormat::ChannelsLast);
  add("channels last", t, t);
  t = make({9, 40});
  add("rows with gaps", t, t.narrow(1, 3, 33));
  t = make({2049});
  add("every other element", t, t.slice(0, 0, t.size(0), 2));
  t = make({5, 6, 14});
  add("permuted with gaps", t, t.slice(2, 1, 12, 3).permute({2, 0, 1}).slice(1, 0, 4));
  t = make({4});
  add("no dimensions", t, t[2]);
  t = make({3, 0, 4});
  add("no elements", t, t);
  return all;
}

} // namespace gradient_cases
