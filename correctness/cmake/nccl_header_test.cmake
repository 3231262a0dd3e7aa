# NCCL's header is the one beside its library, and the gathered one where there is none: tried with empty files.
#   cmake -DFOLDER=… -P nccl_header_test.cmake
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${FOLDER})
foreach(file cuda/include/cuda_runtime_api.h pack/include/nccl.h both/lib/libnccl.so.2 both/include/nccl.h
        machine/lib/x86/libnccl.so.2 machine/include/nccl.h
        cuda/lib/libnccl.so alone/lib/libnccl.so.2)
  file(WRITE ${FOLDER}/${file} "")
endforeach()
set(ENV{CUDA_HOME} ${FOLDER}/cuda)
unset(ENV{NCCL_HOME})
set(ZP_PACK ${FOLDER}/pack)
set(CMAKE_FIND_LIBRARY_PREFIXES lib)
set(CMAKE_FIND_LIBRARY_SUFFIXES .so)
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)  # whatever is installed here
set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)

# expect(folder of the library, folder of the header)
function(expect library header)
  set(CMAKE_LIBRARY_PATH ${FOLDER}/${library})
  include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/nccl.cmake)
  if(NOT ZP_NCCL_LIBRARY STREQUAL ${FOLDER}/${library}/libnccl.so.2 OR NOT ZP_NCCL_INCLUDE STREQUAL ${FOLDER}/${header})
    message(SEND_ERROR "beside ${library}: ${ZP_NCCL_INCLUDE} instead of ${header}, for ${ZP_NCCL_LIBRARY}")
  endif()
  unset(ZP_NCCL_LIBRARY CACHE)
  unset(ZP_NCCL_INCLUDE CACHE)
endfunction()
expect(both/lib both/include)
expect(machine/lib/x86 machine/include)
expect(alone/lib pack/include)
