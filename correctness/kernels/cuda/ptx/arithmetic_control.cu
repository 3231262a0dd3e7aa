// A product and a sum that are written apart, a quotient and a root: what they become is up to the flags.
__global__ void arithmetic(const float* x, const double* z, float* y, double* w) {
  y[0] = x[0] * x[1] + x[2];
  y[1] = x[3] / x[4];
  y[2] = sqrtf(x[5]);
  w[0] = z[0] * z[1] + z[2];
}
