#pragma once

#include "scaler/real_type.h"

#include <c10/core/ScalarType.h>

#include <optional>

namespace ampcast::scaler {

/// A dtype that gradients may have: `parts` numbers of the type `real`, two if complex.
struct GradientDtype {
  RealType real;
  int parts;
};

/// The one list of the dtypes the operators take; nullopt for the others.
constexpr std::optional<GradientDtype> gradient_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return GradientDtype{RealType::kFloat32, 1};
    case at::kDouble:
      return GradientDtype{RealType::kFloat64, 1};
    case at::kHalf:
      return GradientDtype{RealType::kFloat16, 1};
    case at::kBFloat16:
      return GradientDtype{RealType::kBFloat16, 1};
    case at::kComplexFloat:
      return GradientDtype{RealType::kFloat32, 2};
    case at::kComplexDouble:
      return GradientDtype{RealType::kFloat64, 2};
    default:
      return std::nullopt;
  }
}

} // namespace ampcast::scaler
