// CUDA's keywords as g++ sees them.
#pragma once

// Not `inline`: that would break `template __global__ void k<float>(...)`.
#define __global__
#define __device__
#define __host__
// Visible, so that a driver stand-in can find them by name (cuModuleGetGlobal).
#define __constant__ __attribute__((visibility("default"), used))
#define __managed__ __attribute__((visibility("default"), used))

// A block runs on one operating system thread from start to end, so "one per block" is "one per thread".
// Inside a function `thread_local` implies `static`. `extern __shared__` is rewritten before compiling.
//
// Leave the TLS model to the compiler: with "initial-exec" the shared arrays of every loaded module must fit in a
// small static reserve, and dlopen fails after a few modules ("cannot allocate memory in static TLS block").
//
// The address sanitizer watches static variables but not thread-local ones, so a sanitized module has static ones and
// runs on one thread.
//
// A GPU's shared memory starts at a multiple of 1024 bytes, so what is copied as float4 or loaded by <mma.h> is aligned
// there without a word in the source. g++ would put a `__half tile[64][64]` anywhere.
#if CUDALAB_SANITIZE
#define __shared__ __attribute__((aligned(32))) static
#else
#define __shared__ __attribute__((aligned(32))) thread_local
#endif

#define __forceinline__ inline __attribute__((always_inline))
// Nothing: the C++ library writes __attribute__((__noinline__)), in headers that a `.cu` may include after this one.
#define __noinline__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))

// A function whose accesses to memory are not looked at (races.h).
#if CUDALAB_RACES || CUDALAB_VOLATILE
#define CUDALAB_UNWATCHED __attribute__((no_sanitize("thread")))
#else
#define CUDALAB_UNWATCHED
#endif

// A variable of the lab that kernel and runtime have in common, for each operating system thread. Not `thread_local`: each
// use would ask whether it is initialised.
#if CUDALAB_RUNTIME
#define CUDALAB_COMMON __thread
#else
#define CUDALAB_COMMON extern __thread
#endif

// Static shared arrays are thread-local variables of the kernel, and those of the runtime follow. The compiler lays them
// out in the order of their definitions or in the reverse one, so there is room at both ends: a kernel that writes a
// little past an array does not change them.
namespace cudalab {
constexpr unsigned room_bytes = 4096;
}
#if CUDALAB_RUNTIME
#define CUDALAB_ROOM(name) __attribute__((used)) static __thread char room_##name[cudalab::room_bytes];
#else
#define CUDALAB_ROOM(name)
#endif

// A function that Python finds in the shared object by its name.
#define CUDALAB_EXTERN extern "C" __attribute__((visibility("default"), used))

// Last parameters of a function, which get the place of its call.
#define CUDALAB_PLACE const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()

// A function that cannot be executed here: a call is a compile error with this text (`forbidden` in source.py reads it).
#define CUDALAB_NOT_ON_CPU(what) __attribute__((error(what " cannot run on the CPU")))
