# Libraries of devices that are not the host, and what they must have in common with the executable that opens them: the
# headers of the objects that pass between the two.
set(ZP_PASSED "")
foreach(header harness/base/check.hpp harness/base/quantities.hpp harness/base/type.hpp harness/base/vocabulary.hpp
        harness/device/device.hpp harness/device/device_limits.hpp harness/device/device_memory.hpp
        harness/layout/layout.hpp harness/trainer/backend.hpp
        harness/transport/carrier.hpp harness/transport/transport.hpp kernels/kernels.hpp)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
  file(SHA256 ${PROJECT_SOURCE_DIR}/${header} digest)
  string(APPEND ZP_PASSED ${digest})
endforeach()
string(SHA256 ZP_PASSED "${ZP_PASSED}")
string(SUBSTRING ${ZP_PASSED} 0 16 ZP_PASSED)
set(ZP_BUILD "ZP_BUILD=\"${PROJECT_VERSION} ${ZP_PASSED}\"")

# Vendor arithmetic is compiled against cuBLASLt's header; the library is opened by who runs. ZP_VENDOR_SOURCES: the
# table of kernels that calls it, or says that there is none. ZP_CUBLASLT_HEADERS: a folder of its headers alone, since
# beside those of a Python package lie headers of CUDA's runtime, which may not be of the compiler's version.
find_path(ZP_CUBLASLT_INCLUDE cublasLt.h HINTS $ENV{CUBLAS_HOME} $ENV{CUDA_HOME} /usr/local/cuda PATHS ${ZP_PACK}
          PATH_SUFFIXES include DOC "cuBLASLt's header, for vendor arithmetic")
set(ZP_CUBLASLT_HEADERS "")
if(ZP_CUBLASLT_INCLUDE AND NOT EXISTS ${ZP_CUBLASLT_INCLUDE}/cublas_api.h)
  message(STATUS "vendor arithmetic is left out: there is no cublas_api.h beside cublasLt.h")
  set(ZP_CUBLASLT_INCLUDE ZP_CUBLASLT_INCLUDE-NOTFOUND)
endif()
if(ZP_CUBLASLT_INCLUDE)
  set(ZP_CUBLASLT_HEADERS ${CMAKE_BINARY_DIR}/cublaslt)
  foreach(header cublasLt.h cublas_api.h)
    configure_file(${ZP_CUBLASLT_INCLUDE}/${header} ${ZP_CUBLASLT_HEADERS}/${header} COPYONLY)
  endforeach()
  message(STATUS "cuBLASLt: header in ${ZP_CUBLASLT_INCLUDE}")
  set(ZP_VENDOR_SOURCES ${PROJECT_SOURCE_DIR}/kernels/cuda/vendor_table.cpp)
else()
  message(STATUS "Vendor arithmetic: not built, cublasLt.h was not found")
  set(ZP_VENDOR_SOURCES ${PROJECT_SOURCE_DIR}/kernels/cuda/vendor_absent.cpp)
endif()

if(ZP_NCCL_INCLUDE)
  message(STATUS "NCCL: header in ${ZP_NCCL_INCLUDE}, library ${ZP_NCCL_LIBRARY}")
else()
  message(STATUS "NCCL: nccl.h was not found, there will be no transport nccl")
endif()

# zp_nccl(target loaded|linked): messages by NCCL, which is opened when it is asked for, or what the target is linked to.
function(zp_nccl target how)
  set(transport ${PROJECT_SOURCE_DIR}/harness/transport)
  target_sources(${target} PRIVATE ${transport}/nccl_words.cpp)
  if(NOT ZP_NCCL_INCLUDE)
    target_sources(${target} PRIVATE ${transport}/nccl_absent.cpp)
    return()
  endif()
  target_sources(${target} PRIVATE ${transport}/nccl_carrier.cpp)
  target_include_directories(${target} SYSTEM PRIVATE ${ZP_NCCL_INCLUDE} ${ZP_CUDA_INCLUDE})
  if(how STREQUAL linked)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/correctness/emulated_backend/nccl_linked.cpp)
  else()
    target_sources(${target} PRIVATE ${transport}/nccl_loaded.cpp)
    if(ZP_NCCL_LIBRARY)
      cmake_path(GET ZP_NCCL_LIBRARY PARENT_PATH folder)
      set_property(TARGET ${target} APPEND PROPERTY BUILD_RPATH ${folder})
      set_property(TARGET ${target} APPEND PROPERTY INSTALL_RPATH ${folder})
    endif()
  endif()
endfunction()

# zp_backend(name): libzeroproof_<name>.so beside the executable, which opens it when ranks are to compute on that device
# (harness/trainer/backend.hpp). The caller adds CUDA's runtime and the kernels, real or emulated. All of it is compiled
# once more, as position-independent code of which two functions are seen from outside.
function(zp_backend name)
  set(target zeroproof_${name})
  set(harness ${PROJECT_SOURCE_DIR}/harness)
  set(kernels ${PROJECT_SOURCE_DIR}/kernels)
  add_library(${target} SHARED
    ${harness}/base/check.cpp ${harness}/base/shared_library.cpp ${harness}/base/type.cpp
    ${harness}/device/device.cpp ${harness}/device/cuda_device.cpp ${harness}/device/cuda_pool.cpp
    ${harness}/layout/layout.cpp ${harness}/transport/aware.cpp ${harness}/transport/staged.cpp
    ${harness}/trainer/cuda_backend.cpp
    ${kernels}/access.cpp ${kernels}/arguments.cpp ${kernels}/kernels.cpp ${kernels}/norm.cpp ${kernels}/hash.cpp
    ${kernels}/cuda/cuda_table.cpp ${ZP_VENDOR_SOURCES})
  target_compile_definitions(${target} PRIVATE ${ZP_BUILD} ZP_BACKEND="${name}")
  target_include_directories(${target} SYSTEM PRIVATE ${ZP_CUBLASLT_HEADERS})
  target_link_libraries(${target} PRIVATE zp_flags fmt::fmt ${CMAKE_DL_LIBS})
  if(ZP_SANITIZE MATCHES undefined)
    target_compile_options(${target} PRIVATE ${ZP_COLD_OPTIONS})
  endif()
  zp_unity(${target})
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/backend.map)
  target_link_options(${target} PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/backend.map)
endfunction()
