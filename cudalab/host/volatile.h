// Accesses to `volatile` memory, of a file that has any: -fsanitize=thread calls these functions before each access, and
// tells volatile ones apart. Before a read other threads may run: they may be those that this one waits for.
#pragma once

#if (CUDALAB_VOLATILE || CUDALAB_RACES) && CUDALAB_RUNTIME

namespace cudalab {
CUDALAB_UNWATCHED inline void touched_volatile(const void* address, size_t bytes, bool writes, void* code) {
    if (!running) return;
    if (running->shares(address))
        fail("@%zx@: " CUDALAB_WHERE ": volatile shared memory cannot run on the CPU; such code expects the lanes of a warp to move in "
             "lockstep, which no GPU since Volta promises either; use __syncwarp() or __shfl_*_sync()",
             size_t(code) - size_t(running->module_base()), CUDALAB_HERE);
    touched(address, bytes, writes, volatile_access, code);
    if (writes) running->stores(address, bytes);
    else running->looked(address, digest(address, bytes), code);
#if CUDALAB_RACES
    running->leave(address, bytes, writes, code);
    if (!writes) running->reads(address, bytes);  // after the others, which may have run
#endif
}
}  // namespace cudalab

#define CUDALAB_TSAN extern "C" __attribute__((used, visibility("hidden"), no_sanitize("thread"))) void
#define CUDALAB_VOLATILE_ACCESS(bytes)                                                                                      \
    CUDALAB_TSAN __tsan_volatile_read##bytes(void* a) { cudalab::touched_volatile(a, bytes, false, __builtin_return_address(0)); } \
    CUDALAB_TSAN __tsan_volatile_write##bytes(void* a) { cudalab::touched_volatile(a, bytes, true, __builtin_return_address(0)); } \
    CUDALAB_TSAN __tsan_unaligned_volatile_read##bytes(void* a) {                                                            \
        cudalab::touched_volatile(a, bytes, false, __builtin_return_address(0));                                             \
    }                                                                                                                       \
    CUDALAB_TSAN __tsan_unaligned_volatile_write##bytes(void* a) {                                                           \
        cudalab::touched_volatile(a, bytes, true, __builtin_return_address(0));                                              \
    }
CUDALAB_VOLATILE_ACCESS(1)
CUDALAB_VOLATILE_ACCESS(2)
CUDALAB_VOLATILE_ACCESS(4)
CUDALAB_VOLATILE_ACCESS(8)
CUDALAB_VOLATILE_ACCESS(16)
#undef CUDALAB_VOLATILE_ACCESS
#undef CUDALAB_TSAN

#endif
