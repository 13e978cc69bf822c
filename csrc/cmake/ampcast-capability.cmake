# Compiles kernels once an instruction set, as torch does for its own: each unit sees CPU_CAPABILITY (DEFAULT, AVX2, AVX512)
# and is chosen at run time. Always optimised: without inlining, such a unit emits weak AVX symbols of shared headers, and the
# linker may pick those for code that runs on any processor.

set(_ampcast_capabilities DEFAULT)
set(_ampcast_flags_DEFAULT)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  list(APPEND _ampcast_capabilities AVX2 AVX512)
  set(_ampcast_flags_AVX2 -mavx2 -mfma -mf16c)
  # GCC 12 takes the undefined operands inside its own AVX-512 intrinsics for uninitialized variables.
  set(_ampcast_flags_AVX512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c -Wno-uninitialized -Wno-maybe-uninitialized)
endif()

# Adds `sources` to `target`, compiled once an instruction set. No contraction into fused multiply-adds: the same bits from all.
function(ampcast_add_capability_sources target)
  foreach(capability IN LISTS _ampcast_capabilities)
    string(TOLOWER "${target}_${capability}" unit)
    add_library(${unit} OBJECT ${ARGN})
    set_target_properties(${unit} PROPERTIES
      POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
    target_compile_definitions(${unit} PRIVATE CPU_CAPABILITY=${capability} CPU_CAPABILITY_${capability})
    target_compile_options(${unit} PRIVATE -O3 -ffp-contract=off ${_ampcast_flags_${capability}})
    target_link_libraries(${unit} PRIVATE ampcast_private)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${unit}>)
    if(NOT capability STREQUAL "DEFAULT")
      target_compile_definitions(${target} PRIVATE HAVE_${capability}_CPU_DEFINITION)
    endif()
  endforeach()
endfunction()
