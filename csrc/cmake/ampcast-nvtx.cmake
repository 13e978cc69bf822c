# Resolves AMPCAST_NVTX and makes the target ampcast_nvtx: the header-only NVTX 3 and the definition AMPCAST_NVTX, or nothing.
# Sets AMPCAST_WITH_NVTX to ON or OFF.

set(AMPCAST_WITH_NVTX OFF)
add_library(ampcast_nvtx INTERFACE)

if(NOT AMPCAST_NVTX STREQUAL "OFF")
  file(GLOB _nvtx_of_pip "${AMPCAST_TORCH_PREFIX}/../nvidia/*/include")
  find_path(AMPCAST_NVTX_INCLUDE_DIR nvtx3/nvtx3.hpp
    HINTS ENV CUDA_HOME ENV CUDA_PATH ${_nvtx_of_pip}
    PATHS /usr/local/cuda
    PATH_SUFFIXES include
    DOC "Folder that holds nvtx3/nvtx3.hpp")
  if(AMPCAST_NVTX_INCLUDE_DIR)
    set(AMPCAST_WITH_NVTX ON)
    target_include_directories(ampcast_nvtx SYSTEM INTERFACE "${AMPCAST_NVTX_INCLUDE_DIR}")
    target_compile_definitions(ampcast_nvtx INTERFACE AMPCAST_NVTX)
    target_link_libraries(ampcast_nvtx INTERFACE ${CMAKE_DL_LIBS})
  elseif(NOT AMPCAST_NVTX STREQUAL "AUTO")
    message(FATAL_ERROR
      "ampcast: AMPCAST_NVTX=${AMPCAST_NVTX}, but nvtx3/nvtx3.hpp was not found. Install it (pip install nvidia-nvtx) or set "
      "AMPCAST_NVTX_INCLUDE_DIR.")
  endif()
endif()
message(STATUS "ampcast: NVTX ranges ${AMPCAST_WITH_NVTX}")
