#include "autocast/reentrant_region.h"
#include "python/bindings.h"

#include <ampcast/autocast.h>
#include <ampcast/cast_policy.h>

#include <c10/core/Device.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace ampcast::python {

namespace {

namespace py = pybind11;
using autocast::ReentrantRegion;

ReentrantRegion autocast_region(
    const std::string& device_type,
    at::ScalarType dtype,
    bool enabled,
    bool cache_enabled,
    std::string policy) {
  const AutocastOptions options{dtype, enabled, cache_enabled, std::move(policy)};
  return ReentrantRegion(
      [device = c10::Device(device_type).type(), options] { return std::make_shared<AutocastGuard>(device, options); });
}

ReentrantRegion disabled_region() {
  return ReentrantRegion([] { return std::make_shared<AutocastDisabledGuard>(); });
}

std::map<std::string, std::string> cast_list_by_name(const std::string& device_type) {
  std::map<std::string, std::string> rules;
  for (const CastListEntry& entry : cast_list(c10::Device(device_type).type())) {
    rules.emplace(entry.op, to_string(entry.rule));
  }
  return rules;
}

} // namespace

void bind_autocast(py::module_& module) {
  // Leaving may empty the cast cache, whose tensors may take the GIL to die.
  py::class_<ReentrantRegion>(module, "Region")
      .def("enter", &ReentrantRegion::enter)
      .def("leave", &ReentrantRegion::leave, py::call_guard<py::gil_scoped_release>());
  module.def(
      "autocast_region", &autocast_region, py::arg("device_type"), py::arg("dtype"), py::arg("enabled"),
      py::arg("cache_enabled"), py::arg("policy"));
  module.def("disabled_region", &disabled_region);
  module.def("cast_list", &cast_list_by_name, py::arg("device_type"));
  module.def("is_enabled", [] { return is_enabled(); });
  module.def("get_policy", [] { return std::string(get_policy()); });
}

} // namespace ampcast::python
