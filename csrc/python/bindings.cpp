#include "python/bindings.h"

#include <ampcast/install.h>

#include <c10/util/Exception.h>

#include <exception>

namespace {

namespace py = pybind11;

// Gives Python users torch's exception types, without the C++ backtrace in the text.
void translate(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::TypeError& e) {
    py::set_error(PyExc_TypeError, e.what_without_backtrace());
  } catch (const c10::ValueError& e) {
    py::set_error(PyExc_ValueError, e.what_without_backtrace());
  } catch (const c10::Error& e) {
    py::set_error(PyExc_RuntimeError, e.what_without_backtrace());
  }
}

} // namespace

PYBIND11_MODULE(_C, module) {
  py::register_local_exception_translator(&translate);
  module.def("install", &ampcast::install);
  ampcast::python::bind_autocast(module);
  ampcast::python::bind_grad_scaler(module);
  ampcast::python::bind_ops(module);
}
