// Uses nothing of ampcast but a region, which must bring ampcast's kernels and operators with it.

#include <ampcast/ampcast.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <cstdio>

int main() {
  const auto has_operators = [] { return c10::Dispatcher::singleton().findSchema({"ampcast::unscale_", ""}).has_value(); };
  const bool before = has_operators();
  ampcast::AutocastGuard autocast(at::kCPU, at::kBFloat16);
  const at::Tensor product = at::mm(at::ones({2, 2}), at::ones({2, 2}));
  std::printf("operators before the region: %d, inside: %d; mm gives %s\n", before, has_operators(), product.dtype().name().data());
  return !before && has_operators() && product.scalar_type() == at::kBFloat16 ? 0 : 1;
}
