// What a backend's shared library exports, and nothing else. Objects and errors pass between it and the
// executable, so both must be compiled from the same sources: they name them.
#pragma once

#include "harness/trainer/backend.hpp"

namespace zp {

inline constexpr const char* kBackendContract = "zeroproof_backend_contract";
inline constexpr const char* kBackendFunction = "zeroproof_backend";

// Version and digest of the headers whose objects pass between the two: one of another layout would be
// misread in silence.
inline constexpr const char* kBuild = ZP_BUILD;

using BackendContract = const char*();
// Lives as long as the process. Throws Error as backend_named() says.
using BackendFunction = const Backend*();

}  // namespace zp
