"""Sizes of the parameters of the models that are measured."""

from __future__ import annotations


def transformer_sizes(vocabulary: int = 8192, width: int = 256, layers: int = 6) -> list[int]:
    """Return the sizes of the parameters of a small language model, biases and norms included: 87 of 10.1 million."""

    def linear(inputs: int, outputs: int) -> list[int]:
        return [inputs * outputs, outputs]

    attention = [*linear(width, 3 * width), *linear(3 * width, width), *linear(width, width)]
    layer = [width, width, *attention, width, width, *linear(width, 4 * width), *linear(4 * width, width)]
    return [vocabulary * width, *(layer * layers), *linear(width, vocabulary)]
