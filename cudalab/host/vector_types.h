// CUDA's vector types, with CUDA's sizes and alignments, and the four index variables.
#pragma once

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

// clang++ does not check alignment where a built-in copy of a struct reads and writes (undefined.h), but where a
// reference is bound. So types whose alignment matters have copy functions of their own there.
#ifdef __clang__
#define CUDALAB_COPIES_2(name, T)                                       \
    name() = default;                                                   \
    constexpr name(T x, T y = {}) : x(x), y(y) {}                       \
    constexpr name(const name& from) : x(from.x), y(from.y) {}          \
    name& operator=(const name& from) { x = from.x, y = from.y; return *this; }
#define CUDALAB_COPIES_4(name, T)                                                             \
    name() = default;                                                                         \
    constexpr name(T x, T y = {}, T z = {}, T w = {}) : x(x), y(y), z(z), w(w) {}             \
    constexpr name(const name& from) : x(from.x), y(from.y), z(from.z), w(from.w) {}          \
    name& operator=(const name& from) { x = from.x, y = from.y, z = from.z, w = from.w; return *this; }
#else
#define CUDALAB_COPIES_2(name, T)
#define CUDALAB_COPIES_4(name, T)
#endif

// T2 is aligned as a whole, T4 to at most 16 bytes, T3 like its element (so a float3 has 12 bytes).
#define CUDALAB_VECTOR(T, name, align2, align4)                                            \
    struct name##1 { T x; };                                                               \
    struct alignas(align2) name##2 { T x, y; CUDALAB_COPIES_2(name##2, T) };               \
    struct name##3 { T x, y, z; };                                                         \
    struct alignas(align4) name##4 { T x, y, z, w; CUDALAB_COPIES_4(name##4, T) };         \
    inline name##1 make_##name##1(T x) { return {x}; }                                     \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; }                             \
    inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                     \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

CUDALAB_VECTOR(signed char, char, 2, 4)
CUDALAB_VECTOR(unsigned char, uchar, 2, 4)
CUDALAB_VECTOR(short, short, 4, 8)
CUDALAB_VECTOR(unsigned short, ushort, 4, 8)
CUDALAB_VECTOR(int, int, 8, 16)
CUDALAB_VECTOR(unsigned int, uint, 8, 16)
CUDALAB_VECTOR(long, long, 16, 16)
CUDALAB_VECTOR(unsigned long, ulong, 16, 16)
CUDALAB_VECTOR(long long, longlong, 16, 16)
CUDALAB_VECTOR(unsigned long long, ulonglong, 16, 16)
CUDALAB_VECTOR(float, float, 8, 16)
CUDALAB_VECTOR(double, double, 16, 16)
#undef CUDALAB_VECTOR

// CUDA 13 has four words of 8 bytes with their alignment in the name.
#define CUDALAB_WIDE(T, name, bytes)                                             \
    struct alignas(bytes) name##4_##bytes##a { T x, y, z, w; };                   \
    inline name##4_##bytes##a make_##name##4_##bytes##a(T x, T y, T z, T w) { return {x, y, z, w}; }
#define CUDALAB_WIDE_BOTH(T, name) CUDALAB_WIDE(T, name, 16) CUDALAB_WIDE(T, name, 32)
CUDALAB_WIDE_BOTH(long, long)
CUDALAB_WIDE_BOTH(unsigned long, ulong)
CUDALAB_WIDE_BOTH(long long, longlong)
CUDALAB_WIDE_BOTH(unsigned long long, ulonglong)
CUDALAB_WIDE_BOTH(double, double)
#undef CUDALAB_WIDE_BOTH
#undef CUDALAB_WIDE
#undef CUDALAB_COPIES_2
#undef CUDALAB_COPIES_4

// Here, since scalar_t may be one of them; the functions are in <cuComplex.h>.
typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

// In flat mode kernel and runtime have variables of their own (flat.h): `static` ones, since only then does the compiler
// know that a store through a kernel's pointer cannot change them, which it needs to vectorise the loop over threads
// (4 times faster on gelu).
#if CUDALAB_FIBERS
#define CUDALAB_INDEX CUDALAB_COMMON
CUDALAB_ROOM(first)
#else
#define CUDALAB_INDEX static thread_local
#endif
#if CUDALAB_FIBERS && !CUDALAB_RUNTIME
#define CUDALAB_ZERO
#else  // variables with another initial value would lie beside shared arrays of a type that has one, without room between
#define CUDALAB_ZERO (0, 0, 0)
#endif
CUDALAB_INDEX uint3 threadIdx, blockIdx;
CUDALAB_INDEX dim3 blockDim CUDALAB_ZERO, gridDim CUDALAB_ZERO;
#undef CUDALAB_INDEX
#undef CUDALAB_ZERO
static constexpr int warpSize = 32;

// `static`, as the variables may be.
namespace cudalab {
CUDALAB_UNWATCHED static uint3 thread_at(unsigned number) {
    return {number % blockDim.x, number / blockDim.x % blockDim.y, number / blockDim.x / blockDim.y};
}
CUDALAB_UNWATCHED static uint3 block_at(unsigned long long number) {
    const unsigned long long plane = (unsigned long long)gridDim.x * gridDim.y;
    return {unsigned(number % gridDim.x), unsigned(number / gridDim.x % gridDim.y), unsigned(number / plane)};
}
}  // namespace cudalab
