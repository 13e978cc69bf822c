"""The stub `_C.pyi` against the compiled module: the same names, methods and parameters."""

import ast
import re
from pathlib import Path

import ampcast
from ampcast import _C

STUB = ast.parse((Path(ampcast.__file__).parent / "_C.pyi").read_text())


def stub_parameters(function: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in function.args.args if argument.arg != "self"]


def bound_parameters(function: object) -> list[str]:
    """Return the parameters in the signature that pybind11 writes into the docstring; unnamed ones are `arg0`, ..."""
    signature = re.match(r"\w+\((.*)\) ->", str(function.__doc__))
    assert signature is not None, function
    nested = re.sub(r"\[[^\[\]]*(\[[^\[\]]*\][^\[\]]*)*\]", "", signature[1])
    names = [part.split(":")[0].strip() for part in nested.split(",") if part.strip()]
    return [name for name in names if name not in ("self", "/")]


def functions_of(body: list[ast.stmt]) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def test_stub_names_what_the_module_has() -> None:
    declared = {node.name for node in STUB.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert declared == {name for name in dir(_C) if not name.startswith("__")}


def test_stub_classes_have_the_methods_that_the_modules_have() -> None:
    for node in STUB.body:
        if isinstance(node, ast.ClassDef):
            bound = {name for name, value in vars(getattr(_C, node.name)).items() if callable(value)}
            assert set(functions_of(node.body)) <= bound | {"__init__"}, node.name
            assert {name for name in bound if not name.startswith("_")} <= set(functions_of(node.body)), node.name


def test_stub_functions_take_the_parameters_that_the_modules_take() -> None:
    for name, function in functions_of(STUB.body).items():
        expected, actual = stub_parameters(function), bound_parameters(getattr(_C, name))
        assert len(expected) == len(actual), name
        assert all(a == e or re.fullmatch(r"arg\d+", a) for e, a in zip(expected, actual, strict=True)), name
