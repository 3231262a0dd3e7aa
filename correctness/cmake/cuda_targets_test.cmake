# What nvcc does not know is left out of its targets: tried with an nvcc that is made up.
#   cmake -DFOLDER=… -P cuda_targets_test.cmake
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/cuda_targets.cmake)

# made_up(name EXIT text): an nvcc that answers so.
function(made_up name exit text)
  file(WRITE ${FOLDER}/${name} "#!/bin/sh\n[ \"$*\" = --list-gpu-arch ] || exit 99\nprintf '${text}'\nexit ${exit}\n")
  file(CHMOD ${FOLDER}/${name} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endfunction()
made_up(nvcc-new 0 "compute_75\\ncompute_80\\ncompute_90\\ncompute_100\\n")
made_up(nvcc-old 0 "compute_75\\ncompute_80\\ncompute_90\\n")
made_up(nvcc-ancient 1 "")

# A call of its own for what ends CMake.
if(DEFINED TARGETS)
  zp_cuda_targets(${FOLDER}/${NVCC} "${TARGETS}" found)
  message(STATUS "found: ${found}")
  return()
endif()

# expect(nvcc targets EXIT text…): what a call with these targets says, in which text stands.
function(expect nvcc targets exit)
  execute_process(COMMAND ${CMAKE_COMMAND} -DFOLDER=${FOLDER} -DNVCC=${nvcc} "-DTARGETS=${targets}" -P
                          ${CMAKE_CURRENT_LIST_FILE}
                  OUTPUT_VARIABLE out ERROR_VARIABLE err RESULT_VARIABLE code)
  string(REGEX REPLACE "[ \n]+" " " said "${out} ${err}")
  if(NOT code STREQUAL exit)
    message(SEND_ERROR "${nvcc} for ${targets}: exit ${code} instead of ${exit}: ${said}")
  endif()
  foreach(text IN LISTS ARGN)
    string(FIND "${said}" "${text}" at)
    if(at EQUAL -1)
      message(SEND_ERROR "${nvcc} for ${targets}: \"${text}\" does not stand in: ${said}")
    endif()
  endforeach()
endfunction()
set(wanted "80-real;90-real;100")
expect(nvcc-new "${wanted}" 0 "found: 80-real;90-real;100")
expect(nvcc-old "${wanted}" 0 "not for 100: ${FOLDER}/nvcc-old knows 75, 80, 90" "found: 80-real;90-real")
expect(nvcc-old "100;120-virtual" 1 "compiles for none of the targets 100, 120-virtual: it knows 75, 80, 90.")
expect(nvcc-old "native" 0 "found: native")
expect(nvcc-ancient "80" 1 "older than CUDA 11.1")
