// Uses nothing of ampcast but a region, which must bring ampcast's kernels with it.

#include <ampcast/ampcast.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <iostream>
#include <string>

namespace {

// Where the kernel that autocasts mm on CPU was registered: a source file of torch's or ours.
std::string registration_of_mm() {
  const std::string table = c10::Dispatcher::singleton().findSchemaOrThrow("aten::mm", "").dumpComputedTable();
  const auto line = table.find("\nAutocastCPU: ");
  return table.substr(line + 1, table.find('\n', line + 1) - line - 1);
}

} // namespace

int main() {
  const std::string before = registration_of_mm();
  ampcast::AutocastGuard autocast(at::kCPU, at::kBFloat16);
  const std::string inside = registration_of_mm();
  const at::Tensor product = at::mm(at::ones({2, 2}), at::ones({2, 2}));
  std::cout << "before: " << before << "\ninside: " << inside << "\nmm gives " << product.scalar_type() << '\n';
  return before != inside && product.scalar_type() == at::kBFloat16 ? 0 : 1;
}
