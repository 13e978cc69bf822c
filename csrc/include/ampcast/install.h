#pragma once

#include <ampcast/export.h>

namespace ampcast {

/// Registers ampcast's autocast kernels and operators with torch's dispatcher, once a process; later calls return at
/// once.
///
/// `import ampcast`, the first `AutocastGuard`, the first `GradScaler` and the functions of `ops.h` call it. A program
/// that reaches the operators by name, or starts threads that run torch ops, calls it first: registering while another
/// thread dispatches is a race in torch.
///
/// torch warns once a process when a kernel is overridden. ampcast silences that one warning, so torch does not repeat
/// it for overrides that others register later; `c10::WarningUtils::set_warnAlways(true)` brings it back.
AMPCAST_API void install();

} // namespace ampcast
