# Flags and helpers that every target shares.

# The arithmetic contract forbids contraction and fast-math; the flag is part of every target. Nearly all take zp_flags:
# sanitizers are in it.
add_library(zp_plain_flags INTERFACE)
set(werror "")
if(ZP_WERROR)
  set(werror ";-Werror")
endif()
target_include_directories(zp_plain_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(zp_plain_flags INTERFACE
                       "$<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off;-Wall;-Wextra;-Wpedantic${werror}>")
target_link_libraries(zp_plain_flags INTERFACE Threads::Threads)
add_library(zp_flags INTERFACE)
target_link_libraries(zp_flags INTERFACE zp_plain_flags)
if(ZP_SANITIZE)
  target_compile_options(zp_flags INTERFACE -fsanitize=${ZP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(zp_flags INTERFACE -fsanitize=${ZP_SANITIZE})
  if(ZP_SANITIZE MATCHES "address.*undefined")
    # Most of what checks of undefined behaviour cost a compiler; what comes of these the address sanitizer sees.
    target_compile_options(zp_flags INTERFACE -fno-sanitize=null,object-size,pointer-overflow)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # sees uninitialised memory in instrumented library code
    target_compile_options(zp_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()

# What is compiled more than it is run: tests, and what only reads and writes text. Checks of undefined behaviour make
# optimising most of what that takes; tests that compute much, which are WARM, are optimised all the same.
set(ZP_COLD_OPTIONS $<$<CONFIG:Release>:-O1>)
set(ZP_WARM_OPTIONS ${ZP_COLD_OPTIONS})
if(ZP_SANITIZE MATCHES undefined)
  set(ZP_COLD_OPTIONS -O0)
endif()

# zp_unity(target): with ZP_UNITY its sources are compiled as one, so that headers are read once: for builds that are
# made from nothing and thrown away.
function(zp_unity target)
  if(ZP_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  endif()
endfunction()

# zp_library(layer [COLD] SOURCES … LIBRARIES …): one static library a folder, named zp_<layer>.
function(zp_library layer)
  cmake_parse_arguments(ARG "COLD" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(zp_${layer} STATIC ${ARG_SOURCES})
  target_link_libraries(zp_${layer} PUBLIC zp_flags ${ARG_LIBRARIES})
  if(ARG_COLD)
    target_compile_options(zp_${layer} PRIVATE ${ZP_COLD_OPTIONS})
  endif()
  zp_unity(zp_${layer})
endfunction()

# What nearly every test includes, parsed once. Tests that need MPI's header compile without it.
function(zp_test_headers)
  file(WRITE ${CMAKE_BINARY_DIR}/test_headers.cpp "")
  add_library(zp_test_headers OBJECT ${CMAKE_BINARY_DIR}/test_headers.cpp)
  target_compile_options(zp_test_headers PRIVATE ${ZP_COLD_OPTIONS})
  target_link_libraries(zp_test_headers PRIVATE zp_flags fmt::fmt GTest::gtest)
  target_precompile_headers(zp_test_headers PRIVATE <algorithm> <array> <functional> <memory> <span> <string>
                            <variant> <vector> <gtest/gtest.h>)
endfunction()

# zp_test(name [WARM] SOURCES … LIBRARIES … [RANKS n] [LABELS …] [TIMEOUT s] [LONG s]): a GoogleTest executable,
# registered test by test; with a sanitizer, whose processes start slowly, as one, and the LONG ones first: about so many
# seconds. With RANKS it runs once under mpirun with that many processes (its main() must initialise MPI).
function(zp_test name)
  cmake_parse_arguments(ARG "WARM" "RANKS;TIMEOUT;LONG" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  set(temperature COLD)
  if(ARG_WARM)
    set(temperature WARM)
  endif()
  if(NOT TARGET zp_test_headers)
    zp_test_headers()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_compile_options(${name} PRIVATE ${ZP_${temperature}_OPTIONS})
  zp_unity(${name})
  if(ARG_RANKS)
    target_link_libraries(${name} PRIVATE zp_flags ${ARG_LIBRARIES} GTest::gtest)
    add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} -n ${ARG_RANKS} $<TARGET_FILE:${name}>)
    set_tests_properties(${name} PROPERTIES LABELS mpi TIMEOUT ${ARG_TIMEOUT})
  else()
    target_link_libraries(${name} PRIVATE zp_flags ${ARG_LIBRARIES} fmt::fmt GTest::gtest GTest::gtest_main)
    if(ZP_${temperature}_OPTIONS STREQUAL ZP_COLD_OPTIONS) # a precompiled header suits one level of optimisation
      target_precompile_headers(${name} REUSE_FROM zp_test_headers)
    endif()
    if(ZP_SANITIZE)
      add_test(NAME ${name} COMMAND ${name})
      set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600)
      if(ARG_LONG)
        set_tests_properties(${name} PROPERTIES COST ${ARG_LONG})
      endif()
    else()
      include(GoogleTest)
      gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST
                           PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
    endif()
  endif()
endfunction()
