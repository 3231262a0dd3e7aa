// Marks formulas that host and GPU compile from one text: under nvcc they are functions of both, elsewhere
// ordinary ones. Such a function keeps to operations that both round alike, and calls only functions marked
// so.
#pragma once

#if defined(__CUDACC__)
#define ZP_HOST_DEVICE __host__ __device__
#else
#define ZP_HOST_DEVICE
#endif
