// What the block and warp collectives here share. They have the members and the semantics that CUB documents, and not its
// code: data goes through TempStorage, whose reuse needs a barrier as in CUB, and results are undefined (all ones here) in
// the threads in which CUB leaves them so. The order of additions is that of CUB's warp reductions and scans.
#pragma once
#include "thread/thread_operators.cuh"

#define CUB_STATIC_ASSERT(condition, what) static_assert(condition, #what)
#define CUB_PTX_WARP_THREADS 32
#define CUB_LOG_WARP_THREADS(arch) 5
#define CUB_WARP_THREADS(arch) 32
#define CUB_MIN(a, b) ((a) < (b) ? (a) : (b))
#define CUB_MAX(a, b) ((a) > (b) ? (a) : (b))

namespace cub {

struct NullType {
    template <class T> NullType& operator=(const T&) { return *this; }
    bool operator==(const NullType&) const { return true; }
    bool operator!=(const NullType&) const { return false; }
};
template <int value> struct Int2Type { enum { VALUE = value }; };
template <class Key, class Value> struct KeyValuePair {
    typedef Key Key_;
    Key key;
    Value value;
    KeyValuePair() = default;
    KeyValuePair(Key key, Value value) : key(key), value(value) {}
    bool operator!=(const KeyValuePair& b) const { return value != b.value || key != b.key; }
    bool operator==(const KeyValuePair& b) const { return !(*this != b); }
};

inline int LaneId() { return (threadIdx.z * blockDim.y * blockDim.x + threadIdx.y * blockDim.x + threadIdx.x) % 32; }
inline int WarpId() { return (threadIdx.z * blockDim.y * blockDim.x + threadIdx.y * blockDim.x + threadIdx.x) / 32; }
inline int RowMajorTid(int x, int y, int) { return (threadIdx.z * y + threadIdx.y) * x + threadIdx.x; }
inline void CTA_SYNC(CUDALAB_PLACE) { __syncthreads(file, line); }
inline void WARP_SYNC(unsigned mask, CUDALAB_PLACE) { __syncwarp(mask, file, line); }
template <class T> constexpr T DivideAndRoundUp(T n, T d) { return n / d + (n % d != 0); }

namespace cudalab_parts {

// Memory for `count` values without constructors to run, as __shared__ variables need it.
template <class T, int count> struct alignas(alignof(T) > 16 ? alignof(T) : 16) room {
    char bytes[sizeof(T) * (count ? count : 1)];
    T& operator[](int i) { return reinterpret_cast<T*>(bytes)[i]; }
    T* data() { return reinterpret_cast<T*>(bytes); }
};
template <class T> T undefined() {
    T value;
    memset(static_cast<void*>(&value), 0xff, sizeof value);
    return value;
}
// The first of `count` values combined with the others, neighbours first, as the lanes of a warp do it.
template <class T, class Op> T warp_fold(T* value, int count, Op op) {
    for (int step = 1; step < count; step *= 2)
        for (int i = 0; i + step < count; i += 2 * step) value[i] = op(value[i], value[i + step]);
    return value[0];
}
template <class T, class Op> T block_fold(T* value, int count, Op op) {
    T sum = warp_fold(value, count < 32 ? count : 32, op);
    for (int first = 32; first < count; first += 32)
        sum = op(sum, warp_fold(value + first, count - first < 32 ? count - first : 32, op));
    return sum;
}
// In place: each becomes the combination of all values up to it.
template <class T, class Op> void warp_scan(T* value, int count, Op op) {
    for (int step = 1; step < count; step *= 2)
        for (int i = count - 1; i >= step; --i) value[i] = op(value[i - step], value[i]);
}
template <class T, class Op> void block_scan(T* value, int count, Op op) {
    for (int first = 0; first < count; first += 32) {
        const int n = count - first < 32 ? count - first : 32;
        warp_scan(value + first, n, op);
        if (first)
            for (int i = 0; i < n; ++i) value[first + i] = op(value[first - 1], value[first + i]);
    }
}
template <class T, int items, class Op> T thread_fold(const T (&value)[items], Op op) {
    T sum = value[0];
    for (int i = 1; i < items; ++i) sum = op(sum, value[i]);
    return sum;
}
template <int lanes> unsigned mask_of_group() {
    return lanes == 32 ? ~0u : ((1u << lanes % 32) - 1) << (LaneId() / lanes * lanes);
}
// The bytes of which an address must be a multiple, where a thread moves `items` values in words as wide as possible.
template <class T, int items> constexpr size_t vector_bytes() {
    const size_t bytes = sizeof(T) * (items % 4 == 0 ? 4 : items % 2 == 0 ? 2 : 1);
    return bytes > 16 ? 16 : bytes;
}
template <class T, int items, class Pointer> void check_vector(const Pointer& pointer, const char* file, unsigned line) {
    if constexpr (std::is_pointer<Pointer>::value)
        if (size_t off = reinterpret_cast<size_t>(pointer) % vector_bytes<T, items>())
            cudalab::fail("%s:%u: " CUDALAB_WHERE ": misaligned address: a vectorized load or store needs an alignment "
                          "of %zu bytes, and the address is %zu bytes off", file, line, CUDALAB_HERE,
                          vector_bytes<T, items>(), off);
}

}  // namespace cudalab_parts
}  // namespace cub
