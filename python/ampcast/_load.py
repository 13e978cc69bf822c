"""Loads ampcast's compiled part, or says what is wrong with the installation and which command mends it."""

import importlib
import sys

_REBUILD = "run `pip install .` in ampcast's source folder"


def is_command_line() -> bool:
    """Return whether this is `python -m ampcast`, which must answer even where torch or `_C` does not load."""
    command = sys.orig_argv
    return sys.argv[:1] == ["-m"] and any(pair == ("-m", "ampcast") for pair in zip(command, command[1:], strict=False))


def load() -> None:
    """Import `ampcast._C`.

    Raises ImportError if ampcast is not built, if torch is missing or has another minor version than the one ampcast was
    built for, or if the library does not load.
    """
    built_for = _torch_built_for()
    installed = _torch_installed(built_for)
    if _minor(installed) != _minor(built_for):
        raise ImportError(
            f"this ampcast was built for torch {built_for}, but torch {installed} is installed; "
            f"run: python -m pip install 'torch=={_minor(built_for)}.*'"
        )
    try:
        importlib.import_module("ampcast._C")
    except ImportError as error:
        raise ImportError(
            f"ampcast's compiled part does not load with torch {installed} (it was built for {built_for}): {error}; "
            f"to build it for the torch that is installed, {_REBUILD}"
        ) from error


def _torch_built_for() -> str:
    try:
        from ampcast import _build_info
    except ImportError as error:
        raise ImportError(
            "ampcast's compiled part is missing: this is a source folder that was not built, or an incomplete install; "
            f"{_REBUILD}"
        ) from error
    return _build_info.TORCH_VERSION


def _torch_installed(built_for: str) -> str:
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            f"ampcast was built for torch {built_for}, but torch is not installed; "
            f"run: python -m pip install 'torch=={_minor(built_for)}.*'"
        ) from error
    return str(torch.__version__)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
