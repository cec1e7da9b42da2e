# find_package(enc_proxy CONFIG): the targets enc_proxy::enc_proxy (shared) and enc_proxy::static, found from where this file lies.
include(CMakeFindDependencyMacro)
find_dependency(Threads)

get_filename_component(ENC_PROXY_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET enc_proxy::enc_proxy)
  add_library(enc_proxy::enc_proxy SHARED IMPORTED)
  set_target_properties(enc_proxy::enc_proxy PROPERTIES
    IMPORTED_LOCATION "${ENC_PROXY_PREFIX}/lib/libenc_proxy.so.@VERSION@"
    IMPORTED_SONAME "libenc_proxy.so.@MAJOR@"
    INTERFACE_INCLUDE_DIRECTORIES "${ENC_PROXY_PREFIX}/include")
endif()

if(NOT TARGET enc_proxy::static)
  add_library(enc_proxy::static STATIC IMPORTED)
  set_target_properties(enc_proxy::static PROPERTIES
    IMPORTED_LOCATION "${ENC_PROXY_PREFIX}/lib/libenc_proxy.a"
    INTERFACE_INCLUDE_DIRECTORIES "${ENC_PROXY_PREFIX}/include"
    INTERFACE_LINK_LIBRARIES "@PRIVATE_LIST@;Threads::Threads")
endif()
