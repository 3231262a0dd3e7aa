# nvcc, where there is one, and the flags of everything that it compiles. Sets ZP_NVCC to whether there is.
include(cmake/cuda_targets.cmake)
set(ZP_NVCC OFF)
find_program(ZP_NVCC_PROGRAM nvcc HINTS $ENV{CUDA_HOME} /usr/local/cuda PATH_SUFFIXES bin DOC "NVIDIA's compiler")
if(NOT ZP_CUDA)
  message(STATUS "CUDA kernels: not compiled, ZP_CUDA is OFF")
elseif(NOT ZP_NVCC_PROGRAM)
  message(STATUS "CUDA kernels: not compiled, nvcc was not found")
else()
  set(CMAKE_CUDA_COMPILER ${ZP_NVCC_PROGRAM})
  zp_cuda_targets(${ZP_NVCC_PROGRAM} "${ZP_CUDA_TARGETS}" CMAKE_CUDA_ARCHITECTURES)
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  if(CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  set(ZP_NVCC ON)
  message(STATUS "CUDA kernels: ${ZP_NVCC_PROGRAM} ${CMAKE_CUDA_COMPILER_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}")
endif()

# The arithmetic contract: nothing fused, flushed or approximate.
add_library(zp_cuda_flags INTERFACE)
set(werror "")
set(host_werror "")
if(ZP_WERROR)
  set(werror ";-Werror=all-warnings")
  set(host_werror ",-Werror")
endif()
target_compile_options(zp_cuda_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;-ftz=false;-prec-div=true;-prec-sqrt=true${werror}>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffp-contract=off,-Wall,-Wextra${host_werror}>")
