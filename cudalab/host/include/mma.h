// nvcuda::wmma: the matrix operations of a warp. Products are exact, sums are in the accumulator's type, in float for
// half accumulators, in the order of k. A GPU adds in another order and rounds in other places.
//
// Which elements a lane holds is not specified by CUDA. Here it is the layout of sm_80 to sm_90 for accumulators of 16 x 16.
// A lane loads and stores its own elements: what lanes write to memory is there for the others after a __syncwarp().
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace nvcuda {
namespace wmma {

struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;
namespace precision { struct tf32; }
enum layout_t { mem_row_major, mem_col_major };

// Rounds to the 10 bits of tf32, ties away from zero.
inline float __float_to_tf32(float x) {
    if (!(fabsf(x) <= FLT_MAX)) return x;
    return cudalab::bits_as<float>((cudalab::bits_as<uint32_t>(x) + 0x1000u) & ~0x1fffu);
}

namespace cudalab_tiles {
using cudalab::running;

template <class T> struct stored { using type = T; };
template <> struct stored<precision::tf32> { using type = float; };

template <class T, int m, int n, int k> constexpr bool multiplies() {
    constexpr bool large = (m == 16 && n == 16) || (m == 32 && n == 8) || (m == 8 && n == 32);
    constexpr bool narrow = std::is_same<T, __half>::value || std::is_same<T, __nv_bfloat16>::value ||
                            std::is_same<T, signed char>::value || std::is_same<T, unsigned char>::value;
    return (narrow && large && k == 16) || (std::is_same<T, precision::tf32>::value && m == 16 && n == 16 && k == 8) ||
           (std::is_same<T, double>::value && m == 8 && n == 8 && k == 4);
}
template <class T, int m, int n, int k> constexpr bool sums() {
    return (std::is_same<T, float>::value && (multiplies<__half, m, n, k>() || multiplies<precision::tf32, m, n, k>())) ||
           ((std::is_same<T, __half>::value || std::is_same<T, int>::value) && multiplies<__half, m, n, k>()) ||
           (std::is_same<T, double>::value && multiplies<double, m, n, k>());
}

// A fragment of a matrix of `rows` x `columns`, of which each lane has `each` elements; `each` may count copies.
template <class T, int rows_, int columns_, int each> struct alignas(8) lane_part {
    enum { num_elements = each, num_storage_elements = each, rows = rows_, columns = columns_ };
    using element_type = T;
    using storage_element_type = typename stored<T>::type;
    storage_element_type x[each];

    static int row(unsigned lane, int i) { return place(lane, i) / columns; }
    static int column(unsigned lane, int i) { return place(lane, i) % columns; }

private:
    static int place(unsigned lane, int i) {
        if (rows == 16 && columns == 16 && each == 8)
            return (int(lane) / 4 + 8 * (i / 2 % 2)) * 16 + int(lane) % 4 * 2 + i % 2 + 8 * (i / 4);
        constexpr int different = rows * columns / 32;
        return int(lane) * different + i % different;
    }
};
template <class T, int rows, int columns>
using operand = lane_part<T, rows, columns, std::is_same<T, __half>::value ? 16 : rows * columns / 32>;

// All lanes of the warp have come to this operation. Returns what `lane` brought through lane_mate.
inline void meet_all(const char* what, uint64_t offer, const char* file, unsigned line) {
    if (cudalab::meet(cudalab::operation(cudalab::matrix + line * 16), ~0u, offer, file, line) != ~0u)
        cudalab::fail("%s:%u: " CUDALAB_WHERE ": %s needs all 32 lanes of a warp; some have returned or do not exist", file, line,
                      CUDALAB_HERE, what);
}

inline void check(const char* what, const void* memory, unsigned stride, size_t element, const char* file, unsigned line) {
    const unsigned align = element == 1 ? 16 : 32;
    if (uintptr_t(memory) % align)
        cudalab::fail("%s:%u: " CUDALAB_WHERE ": misaligned address: %s needs an alignment of %u bytes, and the "
                      "address is %u bytes off", file, line, CUDALAB_HERE, what, align,
                      unsigned(uintptr_t(memory) % align));
    if (stride * element % 16)
        cudalab::fail("%s:%u: " CUDALAB_WHERE ": the leading dimension of %s is %u; it must be a multiple of %zu", file, line,
                      CUDALAB_HERE, what, stride, 16 / element);
}
inline void look_for_others(const char* what, const void* memory, unsigned stride, const char* file, unsigned line) {
    const uint64_t offer = uint64_t(uintptr_t(memory)) * 31 + stride;
    meet_all(what, offer, file, line);
    for (unsigned lane = 0; lane < 32; ++lane)
        if (cudalab::brought_by(lane) != offer)
            cudalab::fail("%s:%u: " CUDALAB_WHERE ": lanes of a warp call %s with different addresses or leading dimensions", file,
                          line, CUDALAB_HERE, what);
}

template <class Part, class T> void load(Part& part, const T* from, unsigned stride, bool by_row, const char* file, unsigned line) {
    check("load_matrix_sync", from, stride, sizeof(T), file, line);
    const unsigned lane = running->lane();
    for (int i = 0; i < Part::num_elements; ++i) {
        const int row = Part::row(lane, i), column = Part::column(lane, i);
        part.x[i] = from[by_row ? size_t(row) * stride + column : size_t(column) * stride + row];
    }
    look_for_others("load_matrix_sync", from, stride, file, line);
}
template <class Part, class T> void store(T* to, const Part& part, unsigned stride, bool by_row, const char* file, unsigned line) {
    check("store_matrix_sync", to, stride, sizeof(T), file, line);
    look_for_others("store_matrix_sync", to, stride, file, line);
    const unsigned lane = running->lane();
    for (int i = 0; i < Part::num_elements; ++i) {
        const int row = Part::row(lane, i), column = Part::column(lane, i);
        to[by_row ? size_t(row) * stride + column : size_t(column) * stride + row] = part.x[i];
    }
}

// An element as a factor.
template <class Sum, class T> Sum factor(T x) { return Sum(x); }
template <class Sum> Sum tf32_factor(float x) { return cudalab::bits_as<float>(cudalab::bits_as<uint32_t>(x) & ~0x1fffu); }

struct operands {
    const void *a, *b, *c;
    bool done;
};

// The first lane that continues multiplies for all: d = a b + c as whole matrices.
template <class Sum, int m, int n, int k, class A, class B, class C> Sum* product(const A& a, const B& b, const C& c, bool saturate,
                                                                                  const char* file, unsigned line) {
    operands mine{&a, &b, &c, false};
    meet_all("mma_sync", uint64_t(uintptr_t(&mine)), file, line);
    Sum *const left = reinterpret_cast<Sum*>(running->room_of_warp()), *const right = reinterpret_cast<Sum*>(running->room_of_warp() + 512);
    Sum* const sums = reinterpret_cast<Sum*>(running->room_of_warp() + 1024);
    if (mine.done) return sums;
    for (unsigned lane = 0; lane < 32; ++lane) {
        operands& theirs = *reinterpret_cast<operands*>(uintptr_t(cudalab::brought_by(lane)));
        const A& x = *static_cast<const A*>(theirs.a);
        const B& y = *static_cast<const B*>(theirs.b);
        const C& z = *static_cast<const C*>(theirs.c);
        constexpr bool tf32 = std::is_same<typename A::element_type, precision::tf32>::value;
        for (int i = 0; i < A::num_elements; ++i)
            left[A::row(lane, i) * k + A::column(lane, i)] = tf32 ? tf32_factor<Sum>(float(x.x[i])) : factor<Sum>(x.x[i]);
        for (int i = 0; i < B::num_elements; ++i)
            right[B::row(lane, i) * n + B::column(lane, i)] = tf32 ? tf32_factor<Sum>(float(y.x[i])) : factor<Sum>(y.x[i]);
        for (int i = 0; i < C::num_elements; ++i) sums[C::row(lane, i) * n + C::column(lane, i)] = Sum(z.x[i]);
        theirs.done = true;
    }
    for (int row = 0; row < m; ++row)
        for (int column = 0; column < n; ++column) {
            Sum sum = sums[row * n + column];
            for (int i = 0; i < k; ++i) sum += left[row * k + i] * right[i * n + column];
            if (std::is_same<Sum, long long>::value) {
                if (saturate) sum = sum < Sum(INT_MIN) ? Sum(INT_MIN) : Sum(INT_MAX) < sum ? Sum(INT_MAX) : sum;
                else sum = Sum(int(unsigned((long long)sum)));
            }
            sums[row * n + column] = sum;
        }
    return sums;
}
}  // namespace cudalab_tiles

template <class Use, int m, int n, int k, class T, class Layout = void> class fragment;
template <int m, int n, int k, class T, class Layout>
class fragment<matrix_a, m, n, k, T, Layout> : public cudalab_tiles::operand<T, m, k> {
    static_assert(cudalab_tiles::multiplies<T, m, n, k>(), "wmma has no matrix_a of this shape and type");
    static_assert(!std::is_void<Layout>::value, "a matrix_a needs a layout: row_major or col_major");
};
template <int m, int n, int k, class T, class Layout>
class fragment<matrix_b, m, n, k, T, Layout> : public cudalab_tiles::operand<T, k, n> {
    static_assert(cudalab_tiles::multiplies<T, m, n, k>(), "wmma has no matrix_b of this shape and type");
    static_assert(!std::is_void<Layout>::value, "a matrix_b needs a layout: row_major or col_major");
};
template <int m, int n, int k, class T>
class fragment<accumulator, m, n, k, T> : public cudalab_tiles::lane_part<T, m, n, m * n / 32> {
    static_assert(cudalab_tiles::sums<T, m, n, k>(), "wmma has no accumulator of this shape and type");
};

template <class T, int rows, int columns, int each>
void fill_fragment(cudalab_tiles::lane_part<T, rows, columns, each>& part, const typename cudalab_tiles::stored<T>::type& value) {
    for (auto& x : part.x) x = value;
}

template <class Use, int m, int n, int k, class T, class Layout>
void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& part, const typename cudalab_tiles::stored<T>::type* from, unsigned stride,
                      CUDALAB_PLACE) {
    static_assert(!std::is_same<Use, accumulator>::value, "load_matrix_sync of an accumulator takes a layout");
    cudalab_tiles::load(part, from, stride, std::is_same<Layout, row_major>::value, file, line);
}
template <int m, int n, int k, class T>
void load_matrix_sync(fragment<accumulator, m, n, k, T>& part, const T* from, unsigned stride, layout_t layout, CUDALAB_PLACE) {
    cudalab_tiles::load(part, from, stride, layout == mem_row_major, file, line);
}
template <int m, int n, int k, class T>
void store_matrix_sync(T* to, const fragment<accumulator, m, n, k, T>& part, unsigned stride, layout_t layout, CUDALAB_PLACE) {
    cudalab_tiles::store(to, part, stride, layout == mem_row_major, file, line);
}

template <int m, int n, int k, class T, class D, class C, class By_a, class By_b>
void mma_sync(fragment<accumulator, m, n, k, D>& d, const fragment<matrix_a, m, n, k, T, By_a>& a,
              const fragment<matrix_b, m, n, k, T, By_b>& b, const fragment<accumulator, m, n, k, C>& c, bool saturate = false,
              CUDALAB_PLACE) {
    constexpr bool whole = std::is_integral<T>::value, wide = std::is_same<T, double>::value;
    static_assert(whole == std::is_same<D, int>::value && whole == std::is_same<C, int>::value &&
                      wide == std::is_same<D, double>::value &&
                      (std::is_same<T, __half>::value || std::is_same<D, C>::value) &&
                      (std::is_same<T, __half>::value || !std::is_same<D, __half>::value),
                  "wmma has no mma_sync of these types");
    using Sum = typename std::conditional<whole, long long, typename std::conditional<wide, double, float>::type>::type;
    const Sum* const sums = cudalab_tiles::product<Sum, m, n, k>(a, b, c, saturate, file, line);
    const unsigned lane = cudalab::running->lane();
    for (int i = 0; i < d.num_elements; ++i) d.x[i] = D(sums[d.row(lane, i) * n + d.column(lane, i)]);
}

}  // namespace wmma
}  // namespace nvcuda
