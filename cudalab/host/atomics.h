// Atomic read-modify-write. Blocks run on several operating system threads, so these are real atomics.
// As on the GPU, the order of floating point additions is not fixed: sums differ in the last digits.
#pragma once

namespace cudalab {

template <size_t bytes> struct word;
template <> struct word<1> { using type = uint8_t; };
template <> struct word<2> { using type = uint16_t; };
template <> struct word<4> { using type = uint32_t; };
template <> struct word<8> { using type = uint64_t; };

// Replaces *address by change(*address) atomically and returns the old value. `address` is aligned for T. An operation that
// keeps all values, such as an atomicAdd() of 0, only looks, unless the caller says that it `takes`.
template <class T, class Change>
CUDALAB_UNWATCHED inline T exchange_with(T* address, Change change, unsigned strength = atomic_access, bool takes = false) {
    contend();
    touched(address, sizeof(T), true, strength, __builtin_return_address(0));
    using bits = typename word<sizeof(T)>::type;
    bits* const at = reinterpret_cast<bits*>(address);
    bits old = __atomic_load_n(at, __ATOMIC_RELAXED), wanted;
    do wanted = bits_as<bits>(T(change(bits_as<T>(old))));
    while (!__atomic_compare_exchange_n(at, &old, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    for (const bits other : {bits(0), bits(~bits(0))}) takes |= bits_as<bits>(T(change(bits_as<T>(other)))) != other;
    if (takes || wanted != old) took(address, strength);
    if (wanted == old) looked(address, uint64_t(old));
    else changed();
    return bits_as<T>(old);
}

template <class T> CUDALAB_UNWATCHED inline T loaded(const T* address, unsigned strength = atomic_access) {
    contend();
    touched(address, sizeof(T), false, strength, __builtin_return_address(0));
    using bits = typename word<sizeof(T)>::type;
    const bits found = __atomic_load_n(reinterpret_cast<const bits*>(address), __ATOMIC_SEQ_CST);
    looked(address, uint64_t(found));
    return bits_as<T>(found);
}

// Keeps a parameter out of template deduction, so that atomicAdd(&long_long, 1) converts the 1.
template <class T> struct just { using type = T; };
template <class T> using as = typename just<T>::type;

template <class T> constexpr bool any_type = true;
template <class T> constexpr bool integers = std::is_integral<T>::value;

}  // namespace cudalab

#define CUDALAB_ATOMIC(name, types, expression)                                                         \
    template <class T> inline T name(T* address, cudalab::as<T> v) {                                    \
        static_assert(cudalab::types<T>, #name " does not take this type in CUDA");                     \
        return cudalab::exchange_with(address, [v](T old) { return expression; });                      \
    }                                                                                                   \
    template <class T> inline T name##_block(T* address, cudalab::as<T> v) {                            \
        static_assert(cudalab::types<T>, #name " does not take this type in CUDA");                     \
        return cudalab::exchange_with(address, [v](T old) { return expression; }, cudalab::block_scope); \
    }                                                                                                   \
    template <class T> inline T name##_system(T* address, cudalab::as<T> v) { return name(address, v); }
CUDALAB_ATOMIC(atomicAdd, any_type, old + v)
CUDALAB_ATOMIC(atomicExch, any_type, (void(old), v))
CUDALAB_ATOMIC(atomicSub, integers, old - v)
CUDALAB_ATOMIC(atomicMin, integers, v < old ? v : old)
CUDALAB_ATOMIC(atomicMax, integers, old < v ? v : old)
CUDALAB_ATOMIC(atomicAnd, integers, old & v)
CUDALAB_ATOMIC(atomicOr, integers, old | v)
CUDALAB_ATOMIC(atomicXor, integers, old ^ v)
CUDALAB_ATOMIC(atomicInc, integers, old >= v ? T(0) : T(old + 1))
CUDALAB_ATOMIC(atomicDec, integers, old == T(0) || old > v ? v : T(old - 1))
#undef CUDALAB_ATOMIC

template <class T> inline T atomicCAS(T* address, cudalab::as<T> expected, cudalab::as<T> v) {
    // Compared as bits, as CUDA does.
    return cudalab::exchange_with(address, [&](T old) { return memcmp(&old, &expected, sizeof old) == 0 ? v : old; },
                                  cudalab::atomic_access, memcmp(&v, &expected, sizeof v) != 0);
}

template <class T> inline T atomicCAS_block(T* address, cudalab::as<T> expected, cudalab::as<T> v) {
    return cudalab::exchange_with(
        address, [&](T old) { return memcmp(&old, &expected, sizeof old) == 0 ? v : old; }, cudalab::block_scope, true);
}
template <class T> inline T atomicCAS_system(T* address, cudalab::as<T> expected, cudalab::as<T> v) {
    return atomicCAS(address, expected, v);
}

// Of these CUDA promises each element to be atomic, not the whole.
#define CUDALAB_ATOMIC_VECTOR(scope)                                                    \
    inline float2 atomicAdd##scope(float2* at, float2 v) {                              \
        return {atomicAdd##scope(&at->x, v.x), atomicAdd##scope(&at->y, v.y)};          \
    }                                                                                   \
    inline float4 atomicAdd##scope(float4* at, float4 v) {                              \
        return {atomicAdd##scope(&at->x, v.x), atomicAdd##scope(&at->y, v.y),           \
                atomicAdd##scope(&at->z, v.z), atomicAdd##scope(&at->w, v.w)};          \
    }
CUDALAB_ATOMIC_VECTOR()
CUDALAB_ATOMIC_VECTOR(_block)
CUDALAB_ATOMIC_VECTOR(_system)
#undef CUDALAB_ATOMIC_VECTOR

// Loops that wait for other threads often have one of these; then others run.
#define CUDALAB_FENCE(name, publish)                \
    inline void name() {                            \
        publish;                                    \
        __atomic_thread_fence(__ATOMIC_SEQ_CST);    \
        cudalab::looked(nullptr, 0);                \
    }
CUDALAB_FENCE(__threadfence, cudalab::fenced(false))
CUDALAB_FENCE(__threadfence_block, cudalab::fenced(true))
CUDALAB_FENCE(__threadfence_system, cudalab::fenced(false))
#undef CUDALAB_FENCE
inline void __nanosleep(unsigned) { cudalab::looked(nullptr, 0); }
