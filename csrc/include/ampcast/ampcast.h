#pragma once

/// Everything ampcast offers a LibTorch program.

#include <ampcast/autocast.h>
#include <ampcast/cast_policy.h>
#include <ampcast/grad_scaler.h>
#include <ampcast/install.h>
#include <ampcast/ops.h>
#include <ampcast/version.h>

namespace ampcast::detail {

/// Keeps the linker from dropping `libampcast.so` from a program that names none of its symbols. `used`: the compiler
/// would otherwise drop the variable itself.
[[gnu::used]] inline void (*const link_anchor)() = &ampcast::install;

} // namespace ampcast::detail
