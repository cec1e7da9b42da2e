# find_package(proxy CONFIG): the targets proxy::proxy (shared) and proxy::static, found from where this file lies.
include(CMakeFindDependencyMacro)
find_dependency(Threads)

get_filename_component(PROXY_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET proxy::proxy)
  add_library(proxy::proxy SHARED IMPORTED)
  set_target_properties(proxy::proxy PROPERTIES
    IMPORTED_LOCATION "${PROXY_PREFIX}/lib/libproxy.so.@VERSION@"
    IMPORTED_SONAME "libproxy.so.@MAJOR@"
    INTERFACE_INCLUDE_DIRECTORIES "${PROXY_PREFIX}/include")
endif()

if(NOT TARGET proxy::static)
  add_library(proxy::static STATIC IMPORTED)
  set_target_properties(proxy::static PROPERTIES
    IMPORTED_LOCATION "${PROXY_PREFIX}/lib/libproxy.a"
    INTERFACE_INCLUDE_DIRECTORIES "${PROXY_PREFIX}/include"
    INTERFACE_LINK_LIBRARIES "@PRIVATE_LIST@;Threads::Threads")
endif()
