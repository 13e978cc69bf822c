"""What this copy of ampcast is and runs on, as text."""

import torch

from ampcast import _build_info


def show_config() -> str:
    """Return, as text for people, how ampcast was built and which kernels it has."""
    cuda = f"CUDA {_build_info.TORCH_CUDA}" if _build_info.TORCH_CUDA else "CPU only"
    return "\n".join(
        [
            f"ampcast {_build_info.VERSION}",
            f"  built with: {_build_info.COMPILER}, {_build_info.BUILD_TYPE}",
            f"  built for:  torch {_build_info.TORCH_VERSION} ({cuda})",
            f"  running on: torch {torch.__version__}, CPU capability {torch.backends.cpu.get_cpu_capability()}",
            f"  kernels:    {_kernels()}",
            f"  NVTX:       {'on' if _build_info.NVTX else 'off'}",
        ]
    )


def _kernels() -> str:
    if _build_info.NO_CUDA_REASON:
        return f"CPU; none for CUDA, where torch's own unscale gradients, for {_build_info.NO_CUDA_REASON}"
    return f"CPU, CUDA (architectures {_build_info.CUDA_ARCHITECTURES.replace(';', ', ')})"
