// Atomic read-modify-write. Blocks run on several operating system threads, so these are real atomics.
// As on the GPU, the order of floating point additions is not fixed: sums differ in the last digits.
#pragma once

namespace cudalab {

template <size_t bytes> struct word;
template <> struct word<1> { using type = uint8_t; };
template <> struct word<2> { using type = uint16_t; };
template <> struct word<4> { using type = uint32_t; };
template <> struct word<8> { using type = uint64_t; };

// What an operation that may change memory tells its thread of other blocks without a fence behind it (global_races.h). One
// that `counts` tells the last of several blocks that all have come. The first to count from 0 learns nothing, and one that
// `locks` learns nothing if it changes the value: it takes a lock, and must call __threadfence() before it reads what the lock
// guards.
enum class taking : uint8_t { nothing, counts, locks, acquires };

// Replaces *address by change(*address) atomically and returns the old value. `address` is aligned for T. An operation that
// keeps all values, such as an atomicAdd() of 0, only looks.
template <class T, class Change>
CUDALAB_UNWATCHED inline T exchange_with(T* address, Change change, unsigned strength = atomic_access, taking how = taking::counts) {
    contend();
    touched(address, sizeof(T), true, strength, __builtin_return_address(0));
    using bits = typename word<sizeof(T)>::type;
    bits* const at = reinterpret_cast<bits*>(address);
    bits old = __atomic_load_n(at, __ATOMIC_RELAXED), wanted;
    do wanted = bits_as<bits>(T(change(bits_as<T>(old))));
    while (!__atomic_compare_exchange_n(at, &old, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    bool takes = how == taking::acquires || (how == taking::locks && wanted == old);
    if (how == taking::counts && (old || wanted == old))
        for (const bits other : {old, bits(0), bits(~bits(0))}) takes |= bits_as<bits>(T(change(bits_as<T>(other)))) != other;
    if (takes) took(address, strength);
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

#define CUDALAB_ATOMIC(name, types, how, expression)                                                    \
    template <class T> inline T name(T* address, cudalab::as<T> v) {                                    \
        static_assert(cudalab::types<T>, #name " does not take this type in CUDA");                     \
        return cudalab::exchange_with(address, [v](T old) { return expression; }, cudalab::atomic_access, cudalab::taking::how); \
    }                                                                                                   \
    template <class T> inline T name##_block(T* address, cudalab::as<T> v) {                            \
        static_assert(cudalab::types<T>, #name " does not take this type in CUDA");                     \
        return cudalab::exchange_with(address, [v](T old) { return expression; }, cudalab::block_scope, cudalab::taking::how); \
    }                                                                                                   \
    template <class T> inline T name##_system(T* address, cudalab::as<T> v) { return name(address, v); }
CUDALAB_ATOMIC(atomicAdd, any_type, counts, old + v)
CUDALAB_ATOMIC(atomicExch, any_type, locks, (void(old), v))
CUDALAB_ATOMIC(atomicSub, integers, counts, old - v)
CUDALAB_ATOMIC(atomicMin, integers, counts, v < old ? v : old)
CUDALAB_ATOMIC(atomicMax, integers, counts, old < v ? v : old)
CUDALAB_ATOMIC(atomicAnd, integers, counts, old & v)
CUDALAB_ATOMIC(atomicOr, integers, counts, old | v)
CUDALAB_ATOMIC(atomicXor, integers, counts, old ^ v)
CUDALAB_ATOMIC(atomicInc, integers, counts, old >= v ? T(0) : T(old + 1))
CUDALAB_ATOMIC(atomicDec, integers, counts, old == T(0) || old > v ? v : T(old - 1))
#undef CUDALAB_ATOMIC

namespace cudalab {
template <class T> inline T compared(T* address, T expected, T v, unsigned strength) {  // as bits, as CUDA does
    return exchange_with(address, [&](T old) { return memcmp(&old, &expected, sizeof old) == 0 ? v : old; }, strength,
                         memcmp(&v, &expected, sizeof v) ? taking::locks : taking::nothing);
}
}  // namespace cudalab
template <class T> inline T atomicCAS(T* address, cudalab::as<T> expected, cudalab::as<T> v) {
    return cudalab::compared<T>(address, expected, v, cudalab::atomic_access);
}
template <class T> inline T atomicCAS_block(T* address, cudalab::as<T> expected, cudalab::as<T> v) {
    return cudalab::compared<T>(address, expected, v, cudalab::block_scope);
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
