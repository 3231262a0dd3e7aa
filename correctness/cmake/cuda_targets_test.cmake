# What nvcc does not know is left out of its targets: tried with an nvcc that is made up.
#   cmake -DFOLDER=… -P cuda_targets_test.cmake
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/cuda_targets.cmake)

# made_up(name release EXIT text): an nvcc of that release, which lists what it compiles for so.
function(made_up name release exit text)
  file(WRITE ${FOLDER}/${name} "#!/bin/sh\n[ \"$*\" != --version ] || { echo 'tools, release ${release}, V1'; exit; }\n"
                               "[ \"$*\" = --list-gpu-arch ] || exit 99\nprintf '${text}'\nexit ${exit}\n")
  file(CHMOD ${FOLDER}/${name} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endfunction()
made_up(nvcc-new 13.0 0 "compute_75\\ncompute_80\\ncompute_90\\ncompute_100\\n")
made_up(nvcc-old 12.1 0 "compute_75\\ncompute_80\\ncompute_90\\n")
made_up(nvcc-broken 12.9 1 "")
made_up(nvcc-older 12.0 0 "compute_90\\n")
made_up(nvcc-wordless "" 0 "compute_90\\n")

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
expect(nvcc-broken "80" 1 "nvcc-broken --list-gpu-arch: (exit 1)")
expect(nvcc-older "90" 1 "is of CUDA \"12.0\"" "need CUDA 12.1")
expect(nvcc-wordless "90" 1 "is of CUDA \"\"")
