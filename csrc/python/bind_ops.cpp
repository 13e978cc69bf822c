#include "python/bindings.h"

#include <ampcast/ops.h>

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <vector>

namespace ampcast::python {

namespace {

namespace py = pybind11;

/// The tensors of a Python sequence; TypeError, naming the argument and the place, if it is none.
std::vector<at::Tensor> unpack(const py::handle& sequence, const char* argument) {
  TORCH_CHECK_TYPE(
      PyList_Check(sequence.ptr()) || PyTuple_Check(sequence.ptr()), "ampcast.ops: `", argument,
      "` must be a list or tuple of tensors, got ", Py_TYPE(sequence.ptr())->tp_name);
  std::vector<at::Tensor> tensors;
  tensors.reserve(PySequence_Fast_GET_SIZE(sequence.ptr()));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.ptr()); ++i) {
    PyObject* const item = PySequence_Fast_GET_ITEM(sequence.ptr(), i);
    TORCH_CHECK_TYPE(
        THPVariable_Check(item), "ampcast.ops: `", argument, '[', i, "]` must be a tensor, got ",
        Py_TYPE(item)->tp_name);
    tensors.push_back(THPVariable_Unpack(item));
  }
  return tensors;
}

void check_finite(const py::object& grads, at::Tensor found_inf, const std::optional<at::Tensor>& inv_scale) {
  const std::vector<at::Tensor> tensors = unpack(grads, "grads");
  const py::gil_scoped_release no_gil;
  ampcast::check_finite_(tensors, found_inf, inv_scale);
}

void unscale(const py::object& grads, at::Tensor found_inf, const at::Tensor& inv_scale) {
  const std::vector<at::Tensor> tensors = unpack(grads, "grads");
  const py::gil_scoped_release no_gil;
  ampcast::unscale_(tensors, found_inf, inv_scale);
}

void unscale_norm(
    const py::object& grads,
    at::Tensor found_inf,
    const at::Tensor& inv_scale,
    at::Tensor norm,
    double norm_type) {
  const std::vector<at::Tensor> tensors = unpack(grads, "grads");
  const py::gil_scoped_release no_gil;
  ampcast::unscale_norm_(tensors, found_inf, inv_scale, norm, norm_type);
}

void clip(const py::object& grads, const at::Tensor& norm, double max_norm) {
  const std::vector<at::Tensor> tensors = unpack(grads, "grads");
  const py::gil_scoped_release no_gil;
  ampcast::clip_(tensors, norm, max_norm);
}

void copy_cast(const py::object& dst, const py::object& src) {
  const std::vector<at::Tensor> dst_tensors = unpack(dst, "dst");
  const std::vector<at::Tensor> src_tensors = unpack(src, "src");
  const py::gil_scoped_release no_gil;
  ampcast::copy_cast_(dst_tensors, src_tensors);
}

} // namespace

// The arguments of torch.ops, without the boxing of each list into a value of its own.
void bind_ops(py::module_& module) {
  using torch::wrap_pybind_function;
  module.def("check_finite_", wrap_pybind_function(check_finite));
  module.def("unscale_", wrap_pybind_function(unscale));
  module.def("unscale_norm_", wrap_pybind_function(unscale_norm));
  module.def("clip_", wrap_pybind_function(clip));
  module.def("copy_cast_", wrap_pybind_function(copy_cast));
  module.def("update_scale_", wrap_pybind_function(update_scale_));
}

} // namespace ampcast::python
