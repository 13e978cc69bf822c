#pragma once

// The only way tests include Catch2: after torch's headers, whose logging macros of the same names would win otherwise, and
// with one spelling for Catch2 2.13 and 3. Include torch's headers before this one.

#include <c10/util/Logging.h>

#undef CHECK
#undef CHECK_FALSE
#undef CHECK_NOTHROW
#undef CHECK_THROWS
#undef REQUIRE
#undef FAIL
#undef INFO
#undef WARN

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
using Catch::Matchers::Contains;
namespace Catch::Matchers {
inline auto ContainsSubstring(const std::string& text) {
  return Contains(text);
}
} // namespace Catch::Matchers
#endif

/// Leaves the test case, saying why it cannot run here.
#ifdef SKIP
#define AMPCAST_SKIP(reason) SKIP(reason)
#else
#define AMPCAST_SKIP(reason)       \
  do {                             \
    WARN("skipped: " << (reason)); \
    return;                        \
  } while (false)
#endif
