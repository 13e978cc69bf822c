#pragma once

#include <torch/version.h>

/// True when compiling against torch `major.minor` or newer; for lists and APIs that differ between versions.
#define AMPCAST_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))
