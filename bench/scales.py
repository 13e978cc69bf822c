"""Scales with which a gradient keeps its size however often it is unscaled."""

# The largest float32 below 1 as inverse scale, and the scale nearest to it: every call multiplies and writes
# the gradients, which are still about as large after a million calls.
INV_SCALE = 1 - 2**-24
SCALE = 1 + 2**-23

# A scale below 1 lets the gradients grow by as much as clipping takes back, so that clipping is always due.
CLIP_SCALE = 1 - 2**-10
MAX_NORM = 10.0

# No gradients here have a norm that is larger, so that clipping is never due.
LARGE_NORM = 1e30
