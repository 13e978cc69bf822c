"""`python -m ampcast`: where C++ builds find ampcast. Needs neither a loadable torch nor ampcast's compiled part."""

import argparse
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def cmake_prefix_path() -> str:
    """Return the folders of ampcast and torch, as CMake's CMAKE_PREFIX_PATH wants them."""
    torch = find_spec("torch")
    folders = [str(PACKAGE)]
    if torch is not None and torch.submodule_search_locations:
        folders.append(torch.submodule_search_locations[0])
    return ";".join(folders)


def main() -> None:
    """Print what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m ampcast", description="Where C++ builds find ampcast.")
    question = parser.add_mutually_exclusive_group(required=True)
    question.add_argument("--cmake-prefix-path", action="store_true", help="CMAKE_PREFIX_PATH for ampcast and torch")
    question.add_argument("--include-dir", action="store_true", help="folder of ampcast's C++ headers")
    question.add_argument("--version", action="store_true", help="ampcast's version")
    arguments = parser.parse_args()
    if arguments.cmake_prefix_path:
        print(cmake_prefix_path())
    elif arguments.include_dir:
        print(PACKAGE / "include")
    else:
        print(metadata.version("ampcast"))


if __name__ == "__main__":
    main()
