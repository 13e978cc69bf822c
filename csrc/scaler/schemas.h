#pragma once

namespace ampcast::scaler {

/// Registers the operators of `ampcast/ops.h` with their kernels, once a process.
///
/// Nothing is registered before the first call. The registrations are never undone: operators outlive whatever order a
/// process ends in.
void register_ops();

} // namespace ampcast::scaler
