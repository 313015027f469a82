// CUB's function objects.
#pragma once

namespace cub {

#define CUDALAB_OPERATOR(name, expression) \
    struct name { template <class A, class B> auto operator()(const A& a, const B& b) const { return expression; } };
CUDALAB_OPERATOR(Equality, a == b)
CUDALAB_OPERATOR(Inequality, a != b)
CUDALAB_OPERATOR(Sum, a + b)
CUDALAB_OPERATOR(Difference, a - b)
CUDALAB_OPERATOR(Division, a / b)
CUDALAB_OPERATOR(Max, a < b ? b : a)
CUDALAB_OPERATOR(Min, b < a ? b : a)
#undef CUDALAB_OPERATOR
// The pair with the larger value; of equal ones that with the smaller key.
struct ArgMax {
    template <class Pair> Pair operator()(const Pair& a, const Pair& b) const {
        return b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};
struct ArgMin {
    template <class Pair> Pair operator()(const Pair& a, const Pair& b) const {
        return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};
template <class To> struct CastOp { template <class A> To operator()(A&& a) const { return To(a); } };
template <class Op> struct SwizzleScanOp {
    Op op;
    template <class T> T operator()(const T& a, const T& b) { return op(b, a); }
};

enum CacheLoadModifier { LOAD_DEFAULT, LOAD_CA, LOAD_CG, LOAD_CS, LOAD_CV, LOAD_LDG, LOAD_VOLATILE };
enum CacheStoreModifier { STORE_DEFAULT, STORE_WB, STORE_CG, STORE_CS, STORE_WT, STORE_VOLATILE };
template <CacheLoadModifier, class Iterator> auto ThreadLoad(Iterator at) { return *at; }
// With these a thread may wait for another one.
template <CacheLoadModifier modifier, class T> auto ThreadLoad(T* at) {
    return modifier == LOAD_CG || modifier == LOAD_CV || modifier == LOAD_VOLATILE ? __ldcg(at) : *at;
}
template <CacheStoreModifier, class Iterator, class T> void ThreadStore(Iterator at, T value) { *at = value; }
template <class T, int items, class Op> T ThreadReduce(const T (&value)[items], Op op) {
    T sum = value[0];
    for (int i = 1; i < items; ++i) sum = op(sum, value[i]);
    return sum;
}

}  // namespace cub
