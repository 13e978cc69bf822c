#pragma once

#include <pybind11/pybind11.h>

/// The Python binding: names and types cross here, no logic.
namespace ampcast::python {

void bind_autocast(pybind11::module_& module);
void bind_grad_scaler(pybind11::module_& module);
void bind_ops(pybind11::module_& module);

} // namespace ampcast::python
