# Install rules. Component "ampcast": libampcast.so, headers and the CMake package; component "python": `_C` and
# `_build_info.py`, to be installed with the folder of the Python package as prefix.

include(CMakePackageConfigHelpers)

set(package_dir share/cmake/ampcast)
set(package_build_dir "${PROJECT_BINARY_DIR}/${package_dir}")
set(lib_dir lib) # whatever the platform's: the Python package must look the same everywhere

if(AMPCAST_WHEEL)
  set(torch_lib "$ORIGIN/../../torch/lib")
else()
  set(torch_lib "${AMPCAST_TORCH_PREFIX}/lib")
endif()
set_target_properties(ampcast PROPERTIES INSTALL_RPATH "${torch_lib}")
if(AMPCAST_CUDA_RPATH)
  set_property(TARGET ampcast APPEND PROPERTY INSTALL_RPATH "${torch_lib}/${AMPCAST_CUDA_RPATH}")
endif()

install(TARGETS ampcast EXPORT ampcast-targets LIBRARY DESTINATION ${lib_dir} COMPONENT ampcast)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/csrc/include/ampcast" DESTINATION include COMPONENT ampcast FILES_MATCHING PATTERN "*.h")
install(FILES "${generated}/ampcast/version.h" DESTINATION include/ampcast COMPONENT ampcast)
install(EXPORT ampcast-targets NAMESPACE ampcast:: DESTINATION ${package_dir} COMPONENT ampcast)

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/ampcast-config.cmake.in" "${package_build_dir}/ampcast-config.cmake"
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file("${package_build_dir}/ampcast-config-version.cmake" COMPATIBILITY SameMinorVersion)
configure_file("${CMAKE_CURRENT_LIST_DIR}/ampcast-torch.cmake" "${package_build_dir}/ampcast-torch.cmake" COPYONLY)
export(EXPORT ampcast-targets NAMESPACE ampcast:: FILE "${package_build_dir}/ampcast-targets.cmake")
install(
  FILES "${package_build_dir}/ampcast-config.cmake" "${package_build_dir}/ampcast-config-version.cmake"
        "${package_build_dir}/ampcast-torch.cmake"
  DESTINATION ${package_dir}
  COMPONENT ampcast)

if(AMPCAST_BUILD_PYTHON)
  if(AMPCAST_WHEEL)
    set_target_properties(ampcast_python PROPERTIES INSTALL_RPATH "$ORIGIN/lib;$ORIGIN/../torch/lib")
  else()
    set_target_properties(ampcast_python PROPERTIES INSTALL_RPATH "$ORIGIN/lib;${AMPCAST_TORCH_PREFIX}/lib")
  endif()
  configure_file("${CMAKE_CURRENT_LIST_DIR}/_build_info.py.in" "${PROJECT_BINARY_DIR}/_build_info.py" @ONLY)
  install(TARGETS ampcast_python LIBRARY DESTINATION . COMPONENT python)
  install(FILES "${PROJECT_BINARY_DIR}/_build_info.py" DESTINATION . COMPONENT python)
endif()
