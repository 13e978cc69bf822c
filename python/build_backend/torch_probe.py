"""Locates the torch that ampcast is built against, without importing it."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

MINIMUM = "2.11"
_LOCATE = """
import importlib.util, json
spec = importlib.util.find_spec("torch")
print(json.dumps(spec.submodule_search_locations[0] if spec else None))
"""


class Torch(NamedTuple):
    """An installed torch: its folder and its full version, such as "2.13.0+cpu"."""

    prefix: Path
    version: str

    @property
    def requirement(self) -> str:
        """The requirement that a build against this torch has at run time."""
        major, minor = self.version.split(".")[:2]
        return f"torch == {major}.{minor}.*"


def find_torch() -> "Torch | None":
    """Return the torch of the environment that ampcast will be installed into, or None.

    pip's build isolation hides that environment from imports, but not from `sys.executable -I`. Tools that build in a
    virtual environment of their own (`python -m build`, uv) hide it fully; then the active environment is asked.
    """
    asked = os.environ.get("AMPCAST_TORCH_PYTHON")
    if asked:
        torch = _torch_of(asked)
        if torch is None:
            raise SystemExit(
                f"ampcast: AMPCAST_TORCH_PYTHON={asked} has no torch; install it there or unset the variable"
            )
        return torch
    for python in (sys.executable, *_active_environments()):
        torch = _torch_of(python)
        if torch is not None:
            return torch
    spec = find_spec("torch")  # a build requirement, in the isolated environment itself
    return _read_torch(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def _active_environments() -> list[str]:
    roots = (os.environ.get("VIRTUAL_ENV"), os.environ.get("CONDA_PREFIX"))
    return [f"{root}/bin/python" for root in roots if root and Path(root, "bin/python").exists()]


def _torch_of(python: str) -> "Torch | None":
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [python, "-I", "-c", _LOCATE]
    answer = subprocess.run(command, env=clean, cwd="/", capture_output=True, text=True, check=False)
    prefix = json.loads(answer.stdout) if answer.returncode == 0 else None
    return _read_torch(prefix) if prefix else None


def _read_torch(prefix: str) -> "Torch | None":
    version_file = Path(prefix, "version.py")
    found = re.search(r"__version__ = '([^']+)'", version_file.read_text()) if version_file.exists() else None
    return Torch(Path(prefix), found.group(1)) if found else None
