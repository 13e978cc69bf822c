"""The demo's Python part, shortened."""

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "demo" / "train_digits.py"


@pytest.mark.skipif(not DEMO.exists(), reason="the tests run away from the sources")
def test_demo_trains_with_torchs_bits_and_writes_a_picture(tmp_path: Path) -> None:
    command = [sys.executable, DEMO, "--epochs", "1", "--output", tmp_path]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "same bits in all 21 losses: ampcast bf16 = torch.autocast bf16" in result.stdout
    assert (tmp_path / "digits.png").stat().st_size > 10_000
