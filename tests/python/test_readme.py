"""What README.md and the documentation show is what runs."""

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="the tests run away from the sources")
PAGES = [page for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))] if page.exists()]


def blocks(language: str) -> list[object]:
    """Return each code block of `language` with the page and line it stands on as its id."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            line = text[: match.start()].count("\n") + 1
            found.append(pytest.param(match[1], id=f"{page.name}:{line}"))
    return found


@pytest.mark.parametrize("block", blocks("python"))
def test_python_blocks_run(block: str) -> None:
    exec(compile(block, "block", "exec"), {})


@pytest.mark.parametrize("block", blocks("cpp"))
def test_cpp_blocks_are_parts_of_programs_that_are_built(block: str) -> None:
    programs = [path.read_text() for path in (ROOT / "demo/cpp/train_digits.cpp", ROOT / "tests/consumer/train.cpp")]
    assert any(block in program or textwrap.indent(block, "  ") in program for program in programs)


@pytest.mark.parametrize("block", blocks("cmake"))
def test_cmake_blocks_are_lines_of_the_demo(block: str) -> None:
    lines = (ROOT / "demo/cpp/CMakeLists.txt").read_text().splitlines()
    assert [line for line in block.splitlines() if line and line not in lines] == []


def test_every_test_that_the_differences_name_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs/differences.md").read_text()))
    tests = "".join(path.read_text() for path in ROOT.glob("tests/python/test_*.py"))
    cases = set(re.findall(r"TEST_CASE: `(.*?)`", (ROOT / "docs/differences.md").read_text()))
    cpp_tests = "".join(path.read_text() for path in ROOT.glob("tests/cpp/test_*.cpp"))
    assert len(named) > 10
    assert {name for name in named if f"def {name}(" not in tests} == set()
    assert {case for case in cases if f'TEST_CASE("{case}"' not in cpp_tests} == set()
