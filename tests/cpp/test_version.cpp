#include <ampcast/version.h>

#include <string>

#include "catch2_compat.h"

TEST_CASE("version text is made of the version numbers") {
  const std::string expected = std::to_string(AMPCAST_VERSION_MAJOR) + "." + std::to_string(AMPCAST_VERSION_MINOR) +
      "." + std::to_string(AMPCAST_VERSION_PATCH);
  CHECK(AMPCAST_VERSION == expected);
}
