"""PEP 517 backend: setuptools, plus the build requirements that the target environment does not have yet."""

import re
import shutil
import subprocess

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)
from torch_probe import MINIMUM, find_torch

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def get_requires_for_build_wheel(config_settings: "dict[str, str] | None" = None) -> list[str]:
    """Return setuptools' requirements, and cmake, ninja and torch where they are missing."""
    return build_meta.get_requires_for_build_wheel(config_settings) + _missing_requirements()


def get_requires_for_build_editable(config_settings: "dict[str, str] | None" = None) -> list[str]:
    """Return what `get_requires_for_build_wheel` does."""
    return build_meta.get_requires_for_build_editable(config_settings) + _missing_requirements()


def _missing_requirements() -> list[str]:
    missing = []
    if not _has_recent_cmake():
        missing.append("cmake>=3.25")
    if shutil.which("ninja") is None:
        missing.append("ninja")
    if find_torch() is None:
        missing.append(f"torch>={MINIMUM}")
    return missing


def _has_recent_cmake() -> bool:
    cmake = shutil.which("cmake")
    if cmake is None:
        return False
    answer = subprocess.run([cmake, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"version (\d+)\.(\d+)", answer)
    return found is not None and (int(found.group(1)), int(found.group(2))) >= (3, 25)
