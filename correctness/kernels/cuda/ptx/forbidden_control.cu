// What the contract forbids whatever the flags are: an approximate function, and a sum of floats in no order.
__global__ void approximate(float* x) { x[0] = __expf(x[0]); }
__global__ void atomic(float* x, const float* y) { atomicAdd(x, y[threadIdx.x]); }
