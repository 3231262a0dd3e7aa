// Types and reductions of the emulated NCCL: what a type measures, and sums in rank order.
#pragma once

#include <nccl.h>

#include <cstddef>

namespace zp::emulated {

// 0: no such type.
std::size_t size_of(ncclDataType_t type);
const char* name_of(ncclDataType_t type);
const char* name_of(ncclRedOp_t reduction);

// Whether elements of this type can be reduced so.
bool can_reduce(ncclDataType_t type, ncclRedOp_t reduction);

// How elements are put together: of `world` ranks, by this operation.
struct Reduction {
  ncclDataType_t type;
  ncclRedOp_t operation;
  int world;
};

// The first rank's part becomes `total`; each further one is added in turn. bf16 is rounded after every step.
void begin_reduction(const Reduction& reduction, void* total, const void* part, std::size_t count);
void continue_reduction(const Reduction& reduction, void* total, const void* part, std::size_t count);

}  // namespace zp::emulated
