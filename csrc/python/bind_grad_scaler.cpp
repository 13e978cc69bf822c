#include "common/nvtx.h"
#include "python/bindings.h"
#include "scaler/gradients.h"
#include "scaler/scaler_options.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <string>
#include <vector>

namespace ampcast::python {

namespace {

namespace py = pybind11;
using scaler::Gradients;

/// Adds the gradients of a parameter group's `params`; false if one is no tensor.
bool add_parameters(const py::handle& parameters, Gradients& gradients) {
  const auto sequence =
      py::reinterpret_steal<py::object>(PySequence_Fast(parameters.ptr(), "`params` must be iterable"));
  if (!sequence) {
    throw py::error_already_set();
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.ptr()); ++i) {
    PyObject* parameter = PySequence_Fast_GET_ITEM(sequence.ptr(), i);
    if (!THPVariable_Check(parameter)) {
      return false;
    }
    gradients.add(THPVariable_Unpack(parameter));
  }
  return true;
}

/// The gradients of a Python optimizer, or nullopt if ampcast has no kernels for one of them.
std::optional<Gradients> gradients_of(const py::handle& optimizer) {
  Gradients gradients;
  for (const py::handle group : optimizer.attr("param_groups")) {
    if (!add_parameters(group["params"], gradients)) {
      return std::nullopt;
    }
  }
  return gradients.have_kernels() ? std::optional(std::move(gradients)) : std::nullopt;
}

py::dict by_device(const std::vector<at::Tensor>& tensors) {
  py::dict result;
  for (const at::Tensor& tensor : tensors) {
    result[py::cast(tensor.device())] = tensor;
  }
  return result;
}

/// Runs `operation` on the optimizer's gradients with the GIL released; None if ampcast has no kernels for them.
template <typename Operation>
py::object with_gradients_of(const py::handle& optimizer, Operation operation) {
  std::optional<Gradients> gradients = gradients_of(optimizer);
  if (!gradients) {
    return py::none();
  }
  std::vector<at::Tensor> found_inf;
  {
    const py::gil_scoped_release no_gil;
    found_inf = operation(*gradients);
  }
  return by_device(found_inf);
}

py::object unscale_gradients_(
    const py::object& optimizer,
    const at::Tensor& inv_scale,
    const at::Tensor& found_inf,
    bool allow_float16) {
  return with_gradients_of(
      optimizer, [&](Gradients& gradients) { return gradients.unscale_(inv_scale, found_inf, allow_float16); });
}

py::object check_gradients(const py::object& optimizer, const at::Tensor& inv_scale, const at::Tensor& found_inf) {
  return with_gradients_of(
      optimizer, [&](Gradients& gradients) { return gradients.check_finite(inv_scale, found_inf); });
}

/// The pair (`found_inf` by device, norm), or None if ampcast's operators cannot clip these gradients.
py::object unscale_and_clip_gradients_(
    const py::object& optimizer,
    const at::Tensor& inv_scale,
    const at::Tensor& found_inf,
    double max_norm,
    double norm_type,
    bool error_if_nonfinite) {
  std::optional<Gradients> gradients = gradients_of(optimizer);
  if (!gradients || !gradients->can_clip(norm_type)) {
    return py::none();
  }
  Gradients::Clipped clipped;
  {
    const py::gil_scoped_release no_gil;
    clipped = gradients->unscale_and_clip_(
        inv_scale, found_inf, /*allow_float16=*/false, {max_norm, norm_type, error_if_nonfinite});
  }
  return py::make_tuple(by_device(clipped.found_inf), clipped.norm);
}

/// `value` as a C++ number; TypeError, naming the option, if it is none.
template <typename Number>
Number number(const py::handle& value, const std::string& name, const char* kind) {
  py::detail::make_caster<Number> caster;
  TORCH_CHECK_TYPE(
      caster.load(value, /*convert=*/true), "GradScaler: `", name, "` must be ", kind, ", got ",
      Py_TYPE(value.ptr())->tp_name, ".");
  return py::detail::cast_op<Number>(caster);
}

double checked_scale(const py::object& scale, const std::string& name) {
  return scaler::checked_scale(number<double>(scale, name, "a number"), name.c_str());
}

double checked_factor(const py::object& factor, const std::string& name) {
  return scaler::checked_factor(number<double>(factor, name, "a number"), name.c_str());
}

int64_t checked_growth_interval(const py::object& growth_interval) {
  return scaler::checked_growth_interval(number<int64_t>(growth_interval, "growth_interval", "an int"));
}

double checked_max_norm(const py::object& max_norm) {
  return scaler::checked_max_norm(number<double>(max_norm, "max_norm", "a number"));
}

int64_t checked_growth_tracker(const py::object& growth_tracker) {
  return scaler::checked_growth_tracker(number<int64_t>(growth_tracker, "_growth_tracker", "an int"));
}

/// A profiler range as a Python context manager.
class ProfilerRange {
 public:
  explicit ProfilerRange(std::string name) : name_(std::move(name)) {}

  void enter() {
    range_ = nvtx::start_range(name_.c_str());
  }

  void exit(const py::args& /*exception*/) {
    nvtx::end_range(range_);
  }

 private:
  std::string name_;
  uint64_t range_ = 0;
};

} // namespace

void bind_grad_scaler(py::module_& module) {
  using torch::wrap_pybind_function;
  module.def("unscale_gradients_", wrap_pybind_function(unscale_gradients_));
  module.def("unscale_and_clip_gradients_", wrap_pybind_function(unscale_and_clip_gradients_));
  module.def("check_gradients", wrap_pybind_function(check_gradients));
  module.def("has_kernels", wrap_pybind_function(scaler::has_kernels));
  module.def("inverse_of_scale", wrap_pybind_function(scaler::inverse_of_scale));
  module.def("combine_found_inf", wrap_pybind_function([](const std::vector<at::Tensor>& found_inf, at::Device device) {
               return scaler::combine_found_inf(found_inf, device);
             }));
  module.def("checked_scale", wrap_pybind_function(checked_scale));
  module.def("checked_factor", wrap_pybind_function(checked_factor));
  module.def("checked_growth_interval", wrap_pybind_function(checked_growth_interval));
  module.def("checked_max_norm", wrap_pybind_function(checked_max_norm));
  module.def("checked_growth_tracker", wrap_pybind_function(checked_growth_tracker));
  py::class_<ProfilerRange>(module, "ProfilerRange")
      .def(py::init<std::string>())
      .def("__enter__", &ProfilerRange::enter)
      .def("__exit__", &ProfilerRange::exit);
}

} // namespace ampcast::python
