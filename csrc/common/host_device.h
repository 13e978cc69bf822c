#pragma once

// Headers that the CUDA compiler reads too are written in C++17 and include nothing of torch there.

/// `AMPCAST_HOST_DEVICE`: a function for both sides. `AMPCAST_DEVICE`: one that nvcc compiles for the device alone, and a C++
/// compiler for the tests that run it on the host.
#ifdef __CUDACC__
#define AMPCAST_HOST_DEVICE __host__ __device__
#define AMPCAST_DEVICE __device__
#define AMPCAST_UNROLL _Pragma("unroll")
#define AMPCAST_NO_UNROLL _Pragma("unroll 1")
#else
#define AMPCAST_HOST_DEVICE
#define AMPCAST_DEVICE
#define AMPCAST_UNROLL
#define AMPCAST_NO_UNROLL
#endif
