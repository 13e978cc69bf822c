"""Configures Sphinx; runs Doxygen over the public headers, whose comments are the C++ reference."""

import shutil
import subprocess
import sys
from pathlib import Path

import ampcast._build_info

DOCS = Path(__file__).resolve().parent
HEADERS = DOCS.parent / "csrc" / "include" / "ampcast"
DOXYGEN = f"""
INPUT = {HEADERS}
OUTPUT_DIRECTORY = {DOCS / "api"}
GENERATE_XML = YES
GENERATE_HTML = NO
GENERATE_LATEX = NO
QUIET = YES
WARN_AS_ERROR = YES
WARN_IF_UNDOCUMENTED = NO
WARN_IF_INCOMPLETE_DOC = NO
ENABLE_PREPROCESSING = YES
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = AMPCAST_API=
"""


def run_doxygen() -> None:
    if shutil.which("doxygen") is None:
        raise SystemExit("docs: doxygen is missing; on Debian or Ubuntu: sudo apt-get install doxygen")
    (DOCS / "api").mkdir(exist_ok=True)
    subprocess.run(["doxygen", "-"], input=DOXYGEN, text=True, check=True)


run_doxygen()
sys.path.insert(0, str(DOCS / "extensions"))

project = "ampcast"
version = release = ampcast._build_info.VERSION
extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "cast_list"]
exclude_patterns = ["_build", "api"]
html_theme = "furo"
html_title = f"ampcast {version}"
html_last_updated_fmt = None
default_role = "code"
myst_heading_anchors = 3
breathe_projects = {"ampcast": str(DOCS / "api" / "xml")}
breathe_default_project = "ampcast"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
