#pragma once

/// Ranges for NVIDIA's profilers, in ampcast's own NVTX domain "ampcast". Without `AMPCAST_NVTX` all of this does nothing.

#include <cstdint>

#ifdef AMPCAST_NVTX

#include <nvtx3/nvtx3.hpp>

namespace ampcast::nvtx {

struct Domain {
  static constexpr const char* name = "ampcast";
};

using Range = nvtx3::scoped_range_in<Domain>;

/// Starts a range that may end on another thread, and need not nest with others. Returns what `end_range` takes.
inline uint64_t start_range(const char* name) noexcept {
  return nvtx3::start_range_in<Domain>(name).get_value();
}

inline void end_range(uint64_t range) noexcept {
  nvtx3::end_range_in<Domain>(nvtx3::range_handle{range});
}

} // namespace ampcast::nvtx

/// Marks from here to the end of the scope, on this thread.
#define AMPCAST_NVTX_RANGE(name) const ::ampcast::nvtx::Range ampcast_nvtx_range(name)

#else

namespace ampcast::nvtx {

inline uint64_t start_range(const char* /*name*/) noexcept {
  return 0;
}

inline void end_range(uint64_t /*range*/) noexcept {}

} // namespace ampcast::nvtx

#define AMPCAST_NVTX_RANGE(name) static_cast<void>(0)

#endif
