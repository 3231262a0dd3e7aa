// An approximate function, which the contract forbids whatever the flags are.
__global__ void approximate(float* x) { x[0] = __expf(x[0]); }
