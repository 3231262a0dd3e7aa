// A library that does nothing for the program which links it. Linked with -Ofast, g++ 12 gives it start-up
// code that makes the whole process take subnormals for zero.
extern "C" float half_of(float x);
extern "C" float half_of(float x) { return x * 0.5F; }
