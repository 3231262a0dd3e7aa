# Libraries of headers: the system's, or else what scripts/gpu_pack.sh gathered for a machine that can install nothing.
set(ZP_PACK ${PROJECT_SOURCE_DIR}/gpu_pack CACHE PATH "What scripts/gpu_pack.sh gathered")

# zp_header_package(package target header [DEFINITION]): as find_package, where there is one.
function(zp_header_package package target header)
  find_package(${package} QUIET)
  if(TARGET ${target})
    return()
  endif()
  if(NOT EXISTS ${ZP_PACK}/include/${header})
    message(FATAL_ERROR "${package} was not found, and ${ZP_PACK}/include has no ${header}: install it, or run "
                        "scripts/gpu_pack.sh where it is installed")
  endif()
  message(STATUS "${package}: from ${ZP_PACK}")
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} SYSTEM INTERFACE ${ZP_PACK}/include)
  target_compile_definitions(${target} INTERFACE ${ARGN})
endfunction()
zp_header_package(fmt fmt::fmt fmt/format.h FMT_HEADER_ONLY=1)
zp_header_package(CLI11 CLI11::CLI11 CLI/CLI.hpp)
zp_header_package(nlohmann_json nlohmann_json::nlohmann_json nlohmann/json.hpp)
