#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

namespace ampcast::scaler {

/// A dtype that gradients may have: `parts` numbers of the dtype `real`, two if complex.
struct GradientDtype {
  at::ScalarType real;
  int parts;
};

/// The one list of the dtypes the operators take; nullopt for the others.
constexpr std::optional<GradientDtype> gradient_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
      return GradientDtype{dtype, 1};
    case at::kComplexFloat:
      return GradientDtype{at::kFloat, 2};
    case at::kComplexDouble:
      return GradientDtype{at::kDouble, 2};
    default:
      return std::nullopt;
  }
}

} // namespace ampcast::scaler
