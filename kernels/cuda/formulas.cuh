// exp, tanh, log and GELU of one thread's element: the text that the host compiles for its vectors.
#pragma once

#define ZP_ISA cuda
#define ZP_ISA_AVX2 0
#define ZP_ISA_ONE_LANE 1
#include "kernels/host/formulas.hpp"
