# Finds torch without torch's own CMake package, which fails on a CUDA torch where nvcc is missing and leaks compiler flags.
#
# `ampcast_find_torch([HINTS folder...])` looks for torch's folder (it holds `include/torch` and `lib/libtorch.so`) in
#   1. AMPCAST_TORCH_PREFIX,
#   2. Torch_DIR and CMAKE_PREFIX_PATH (a libtorch folder, or what `torch.utils.cmake_prefix_path` gives),
#   3. the hints,
#   4. the interpreter Python_EXECUTABLE, or the first `python3` or `python` on PATH; torch is located, never imported,
# and makes
#   ampcast::torch         headers (SYSTEM) and libraries; also CUDA's, so that a program that links it can use the GPU,
#   ampcast::torch_python  ampcast::torch and torch's Python binding, if it is there.
# It sets AMPCAST_TORCH_PREFIX (cached), AMPCAST_TORCH_VERSION ("2.13.0"), AMPCAST_TORCH_VERSION_FULL ("2.13.0+cpu"),
# AMPCAST_TORCH_MINOR ("2.13"), AMPCAST_TORCH_CUDA ("13.0", or empty for a CPU build) and AMPCAST_TORCH_GOMP (its OpenMP
# runtime, or empty).

include_guard(GLOBAL)

# Sets `result` to the first of the given folders that holds a torch, or to an empty string.
function(_ampcast_first_torch result)
  set(${result} "" PARENT_SCOPE)
  foreach(folder IN LISTS ARGN)
    if(EXISTS "${folder}/include/torch" AND EXISTS "${folder}/lib/libtorch.so")
      cmake_path(SET clean NORMALIZE "${folder}")
      string(REGEX REPLACE "/$" "" clean "${clean}")
      set(${result} "${clean}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# Sets `result` to the folder of the interpreter's torch, or to an empty string.
function(_ampcast_torch_of_interpreter result)
  set(${result} "" PARENT_SCOPE)
  if(NOT Python_EXECUTABLE)
    find_program(_ampcast_python NAMES python3 python NO_CACHE)
    set(Python_EXECUTABLE "${_ampcast_python}")
  endif()
  if(Python_EXECUTABLE)
    execute_process(
      COMMAND "${Python_EXECUTABLE}" -c
              "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
      OUTPUT_VARIABLE folder
      OUTPUT_STRIP_TRAILING_WHITESPACE
      ERROR_QUIET)
    _ampcast_first_torch(found "${folder}")
    set(${result} "${found}" PARENT_SCOPE)
  endif()
endfunction()

function(_ampcast_locate_torch)
  set(prefixes ${Torch_DIR} ${CMAKE_PREFIX_PATH})
  if(DEFINED ENV{CMAKE_PREFIX_PATH})
    cmake_path(CONVERT "$ENV{CMAKE_PREFIX_PATH}" TO_CMAKE_PATH_LIST from_environment)
    list(APPEND prefixes ${from_environment})
  endif()
  set(candidates)
  foreach(prefix IN LISTS prefixes)
    list(APPEND candidates "${prefix}" "${prefix}/../.." "${prefix}/../../..") # torch, torch/share/cmake, .../cmake/Torch
  endforeach()
  _ampcast_first_torch(found ${candidates} ${ARGN})
  if(NOT found)
    _ampcast_torch_of_interpreter(found)
  endif()
  if(NOT found)
    message(FATAL_ERROR
      "ampcast: torch was not found. Install it (pip install torch), or name it by one of\n"
      "  -DPython_EXECUTABLE=/path/to/python        an interpreter that has torch\n"
      "  -DCMAKE_PREFIX_PATH=/path/to/libtorch      an unpacked libtorch")
  endif()
  set(AMPCAST_TORCH_PREFIX "${found}" CACHE PATH "Folder of torch: holds include/torch and lib/libtorch.so")
endfunction()

# Sets `result` to what the first group of `regex` matches in `file`, or to an empty string.
function(_ampcast_read_match result file regex)
  set(${result} "" PARENT_SCOPE)
  if(EXISTS "${file}")
    file(READ "${file}" text)
    if(text MATCHES "${regex}")
      set(${result} "${CMAKE_MATCH_1}" PARENT_SCOPE)
    endif()
  endif()
endfunction()

function(_ampcast_read_torch_version prefix)
  set(header "${prefix}/include/torch/headeronly/version.h")
  if(NOT EXISTS "${header}")
    set(header "${prefix}/include/torch/csrc/api/include/torch/version.h")
  endif()
  _ampcast_read_match(major "${header}" "define TORCH_VERSION_MAJOR ([0-9]+)")
  _ampcast_read_match(minor "${header}" "define TORCH_VERSION_MINOR ([0-9]+)")
  _ampcast_read_match(patch "${header}" "define TORCH_VERSION_PATCH ([0-9]+)")
  if(major STREQUAL "" OR minor STREQUAL "")
    message(FATAL_ERROR "ampcast: no torch version in ${header}; torch 2.11 or newer is needed")
  endif()
  set(version "${major}.${minor}.${patch}")
  if(version VERSION_LESS 2.11)
    message(FATAL_ERROR "ampcast: torch 2.11 or newer is needed, found ${version} in ${prefix}")
  endif()

  _ampcast_read_match(full "${prefix}/version.py" "__version__ = '([^']+)'") # a Python package
  _ampcast_read_match(cuda "${prefix}/version.py" "cuda[^=\n]*= '([^']+)'")
  if(NOT full)
    _ampcast_read_match(full "${prefix}/build-version" "([^ \n]+)") # a libtorch folder
    if(full MATCHES "\\+cu([0-9]+)([0-9])$")
      set(cuda "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}")
    endif()
  endif()
  if(NOT full)
    set(full "${version}")
  endif()
  if(NOT cuda AND EXISTS "${prefix}/lib/libtorch_cuda.so")
    set(cuda "unknown")
  endif()
  set(AMPCAST_TORCH_VERSION "${version}" PARENT_SCOPE)
  set(AMPCAST_TORCH_VERSION_FULL "${full}" PARENT_SCOPE)
  set(AMPCAST_TORCH_MINOR "${major}.${minor}" PARENT_SCOPE)
  set(AMPCAST_TORCH_CUDA "${cuda}" PARENT_SCOPE)
endfunction()

function(_ampcast_add_torch_library name)
  add_library(ampcast::${name} SHARED IMPORTED GLOBAL)
  set(file "${AMPCAST_TORCH_PREFIX}/lib/lib${name}.so")
  set_target_properties(ampcast::${name} PROPERTIES IMPORTED_LOCATION "${file}")
endfunction()

function(_ampcast_add_torch_targets)
  set(include "${AMPCAST_TORCH_PREFIX}/include")
  set(lib "${AMPCAST_TORCH_PREFIX}/lib")
  find_package(Threads REQUIRED)
  _ampcast_add_torch_library(c10)
  _ampcast_add_torch_library(torch_cpu)
  add_library(ampcast::torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(ampcast::torch SYSTEM INTERFACE "${include}" "${include}/torch/csrc/api/include")
  target_compile_features(ampcast::torch INTERFACE cxx_std_20)
  target_link_libraries(ampcast::torch INTERFACE ampcast::c10 ampcast::torch_cpu Threads::Threads)
  # Programs that name no symbol of torch need these all the same: libtorch.so brings CUDA's kernels, and a library that needs
  # torch but is not installed beside it finds it through the program.
  set(libraries "${lib}/libc10.so,${lib}/libtorch_cpu.so,${lib}/libtorch.so")
  target_link_libraries(ampcast::torch INTERFACE "-Wl,--push-state,--no-as-needed,${libraries},--pop-state")
  # Whatever torch's libraries need in turn (CUDA's, say) is theirs to find.
  target_link_options(ampcast::torch INTERFACE -Wl,--allow-shlib-undefined)
  if(EXISTS "${lib}/libtorch_python.so")
    _ampcast_add_torch_library(torch_python)
    set_property(TARGET ampcast::torch_python PROPERTY INTERFACE_LINK_LIBRARIES ampcast::torch)
  endif()
endfunction()

macro(ampcast_find_torch)
  cmake_parse_arguments(_ampcast_torch "" "" "HINTS" ${ARGN})
  _ampcast_first_torch(_ampcast_torch_given "${AMPCAST_TORCH_PREFIX}")
  if(NOT _ampcast_torch_given)
    _ampcast_locate_torch(${_ampcast_torch_HINTS})
  endif()
  _ampcast_read_torch_version("${AMPCAST_TORCH_PREFIX}")
  file(GLOB AMPCAST_TORCH_GOMP "${AMPCAST_TORCH_PREFIX}/lib/libgomp*.so*")
  if(NOT TARGET ampcast::torch)
    _ampcast_add_torch_targets()
    if(AMPCAST_TORCH_CUDA)
      set(_ampcast_torch_kind "CUDA ${AMPCAST_TORCH_CUDA}")
    else()
      set(_ampcast_torch_kind "CPU")
    endif()
    message(STATUS "ampcast: torch ${AMPCAST_TORCH_VERSION_FULL} (${_ampcast_torch_kind}) in ${AMPCAST_TORCH_PREFIX}")
  endif()
endmacro()
