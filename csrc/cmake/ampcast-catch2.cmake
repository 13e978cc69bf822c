# Makes the target Catch2::Catch2WithMain from Catch2 3 or 2.13 of the system, else from a pinned release fetched with git.

find_package(Catch2 3 CONFIG QUIET)
if(NOT Catch2_FOUND)
  find_package(Catch2 2.13.4 CONFIG QUIET)
endif()

if(NOT Catch2_FOUND)
  include(FetchContent)
  set(catch2_tag v3.7.1)
  set(catch2_commit fa43b77429ba76c462b1898d6cd2f2d7a9416b14)
  set(catch2_source "${CMAKE_BINARY_DIR}/_deps/catch2-src")
  find_package(Git QUIET)
  if(Git_FOUND AND NOT EXISTS "${catch2_source}/CMakeLists.txt")
    message(STATUS "ampcast: fetching Catch2 ${catch2_tag}")
    execute_process(COMMAND "${GIT_EXECUTABLE}" clone --quiet --depth 1 --branch ${catch2_tag}
      https://github.com/catchorg/Catch2.git "${catch2_source}" RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
  endif()
  if(NOT EXISTS "${catch2_source}/CMakeLists.txt")
    message(FATAL_ERROR
      "ampcast: the C++ tests need Catch2 3 or 2.13, which is not installed and could not be fetched. Install it:\n"
      "  sudo apt-get install catch2\n"
      "or build without the tests: -DAMPCAST_BUILD_TESTS=OFF")
  endif()
  execute_process(COMMAND "${GIT_EXECUTABLE}" -C "${catch2_source}" rev-parse HEAD
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT commit STREQUAL catch2_commit)
    message(FATAL_ERROR "ampcast: Catch2 ${catch2_tag} in ${catch2_source} is commit ${commit}, not ${catch2_commit}")
  endif()
  FetchContent_Declare(Catch2 SOURCE_DIR "${catch2_source}")
  FetchContent_MakeAvailable(Catch2)
endif()
