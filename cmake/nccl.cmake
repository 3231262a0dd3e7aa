# NCCL's library and header. The header beside the library that is found comes first, so that the versions are the same:
# a library that is older than its header is refused when it is opened.
find_path(ZP_CUDA_INCLUDE cuda_runtime_api.h HINTS $ENV{CUDA_HOME} /usr/local/cuda PATH_SUFFIXES include
          DOC "NVIDIA's headers, for the emulated CUDA runtime and for NCCL's")
find_library(ZP_NCCL_LIBRARY NAMES nccl libnccl.so.2 NAMES_PER_DIR HINTS $ENV{NCCL_HOME} ${ZP_CUDA_INCLUDE}/..
             PATH_SUFFIXES lib lib64 DOC "NCCL, whose folder is where --transport nccl looks for it first")
set(beside "")
if(ZP_NCCL_LIBRARY)
  cmake_path(GET ZP_NCCL_LIBRARY PARENT_PATH folder)
  set(beside ${folder}/../include ${folder}/../../include)  # the second where libraries lie in a folder of their machine
endif()
find_path(ZP_NCCL_INCLUDE nccl.h HINTS $ENV{NCCL_HOME} ${beside} ${ZP_CUDA_INCLUDE} PATHS ${ZP_PACK}
          PATH_SUFFIXES include DOC "NCCL's header")
