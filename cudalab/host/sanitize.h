// Tells the address sanitizer about switched stacks and about the guard memory around shared arrays. Without the
// sanitizer only the guard memory remains.
#pragma once

#if CUDALAB_SANITIZE
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

namespace cudalab {

CUDALAB_COMMON const char* shared_start;  // dynamic shared memory of the block that runs
CUDALAB_COMMON size_t shared_size;

constexpr size_t shared_guard = 4096;  // bytes before and after it

inline void forbid(const void* memory, size_t bytes) { __asan_poison_memory_region(memory, bytes); }
inline void allow(const void* memory, size_t bytes) { __asan_unpoison_memory_region(memory, bytes); }
inline void leaving(void** fake, const void* bottom, size_t bytes) {
    __sanitizer_start_switch_fiber(fake, bottom, bytes);
}
inline void arrived(void* fake, const void** bottom, size_t* bytes) {
    __sanitizer_finish_switch_fiber(fake, bottom, bytes);
}

// Called after the sanitizer has printed its report, to add block and thread; then the process ends. The module
// that reads the sanitizer's reports (asan.py) reads this line too.
inline void complete_report(const char*) {
    if (!current_outcome) return;  // not in a kernel
    fprintf(stderr, "cudalab: in " CUDALAB_WHERE "\n", CUDALAB_HERE);
    fprintf(stderr, "cudalab: shared memory at %p, %zu bytes\n", static_cast<const void*>(shared_start), shared_size);
}
inline void watch() { __asan_set_error_report_callback(complete_report); }

}  // namespace cudalab

#else

namespace cudalab {

constexpr size_t shared_guard = 64 << 10;  // checked after the launch
inline void forbid(const void*, size_t) {}
inline void allow(const void*, size_t) {}
inline void leaving(void**, const void*, size_t) {}
inline void arrived(void*, const void**, size_t*) {}
inline void watch() {}

}  // namespace cudalab

#endif
