"""Drives CMake, which holds the build: sources, flags and install rules are in CMakeLists.txt.

Environment: AMPCAST_TORCH_PYTHON names the interpreter whose torch to build against, AMPCAST_CMAKE_ARGS adds CMake arguments,
AMPCAST_BUILD_DIR names the build folder (kept, so that a second build is short), MAX_JOBS limits parallel compilers.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "python" / "build_backend"))
from torch_probe import MINIMUM, Torch, find_torch  # noqa: E402

MEMORY_PER_JOB = 2 * 1024**3  # bytes a compiler of torch's headers needs at most
TORCH = find_torch()


def project_version() -> str:
    """Return the version that CMakeLists.txt states."""
    found = re.search(r"project\(ampcast VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    if found is None:
        raise SystemExit("ampcast: CMakeLists.txt states no version")
    return found.group(1)


def parallel_jobs() -> int:
    """Return how many compilers may run at once."""
    if os.environ.get("MAX_JOBS"):
        return int(os.environ["MAX_JOBS"])
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(len(os.sched_getaffinity(0)), memory // MEMORY_PER_JOB))


def find_tool(name: str) -> str:
    """Return the path of a build tool on PATH or beside the interpreter."""
    beside = os.pathsep.join([os.environ.get("PATH", ""), str(Path(sys.executable).parent)])
    path = shutil.which(name, path=beside)
    if path is None:
        raise SystemExit(f"ampcast: {name} was not found; run: python -m pip install {name}")
    return path


class CMakeBuild(build_ext):
    """Configures, builds and installs with CMake, into the wheel or beside the Python sources."""

    def run(self) -> None:
        """Build `_C` and `libampcast.so` and put them, headers and CMake package into the Python package."""
        if TORCH is None:
            raise SystemExit(f"ampcast: torch was not found; run: python -m pip install 'torch>={MINIMUM}'")
        self.in_place = bool(self.inplace or self.editable_mode)
        build = Path(os.environ.get("AMPCAST_BUILD_DIR", ROOT / "build" / ("develop" if self.in_place else "wheel")))
        cmake = find_tool("cmake")
        subprocess.run([cmake, *self.configure_arguments(TORCH, build)], check=True)
        subprocess.run([cmake, "--build", str(build), "--parallel", str(parallel_jobs())], check=True)
        for folder in ("include", "lib", "share"):  # of an earlier build
            shutil.rmtree(self.package_folder() / folder, ignore_errors=True)
        for component in ("ampcast", "python"):
            install = [cmake, "--install", str(build), "--prefix", str(self.package_folder())]
            subprocess.run([*install, "--component", component], check=True)

    def configure_arguments(self, torch: Torch, build: Path) -> list[str]:
        """Return the arguments of the configuring call of CMake."""
        options = {
            "CMAKE_BUILD_TYPE": os.environ.get("CMAKE_BUILD_TYPE", "Release"),
            "CMAKE_MAKE_PROGRAM": find_tool("ninja"),  # an isolated build has another one each time
            "Python_EXECUTABLE": sys.executable,
            "AMPCAST_TORCH_PREFIX": str(torch.prefix),
            "AMPCAST_BUILD_PYTHON": "ON",
            "AMPCAST_BUILD_TESTS": "OFF",
            "AMPCAST_WHEEL": "OFF" if self.in_place else "ON",
        }
        extra = shlex.split(os.environ.get("AMPCAST_CMAKE_ARGS", ""))
        return ["-S", str(ROOT), "-B", str(build), "-G", "Ninja", *(f"-D{k}={v}" for k, v in options.items()), *extra]

    def package_folder(self) -> Path:
        """Return where the Python package is put together."""
        return ROOT / "python" / "ampcast" if self.in_place else Path(self.build_lib).resolve() / "ampcast"

    def get_outputs(self) -> list[str]:
        """Return the built files, which setuptools lists in the wheel's record by itself."""
        return []

    def get_output_mapping(self) -> dict[str, str]:
        """Return no files: an editable install finds them beside the sources."""
        return {}


setup(
    version=project_version(),
    install_requires=[TORCH.requirement if TORCH else f"torch >= {MINIMUM}"],
    packages=["ampcast"],
    package_dir={"": "python"},
    package_data={"ampcast": ["py.typed", "*.pyi"]},
    ext_modules=[Extension("ampcast._C", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
)
