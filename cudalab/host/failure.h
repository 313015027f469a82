// What a launch says of itself, and how a CUDA thread ends because of a failure.
#pragma once
#include <stdarg.h>
#include <stdio.h>

namespace cudalab {

constexpr const char* gave_up = "gave up: ";  // begins a message; module.py knows it

// One per launch, shared by its workers. The first message is kept.
struct report {
    bool happened_ = false;
    char message[768] = "";

    CUDALAB_UNWATCHED bool happened() const { return __atomic_load_n(&happened_, __ATOMIC_ACQUIRE); }
    CUDALAB_UNWATCHED __attribute__((cold)) void record(const char* format, va_list values) {
        if (__atomic_exchange_n(&happened_, true, __ATOMIC_ACQ_REL)) return;
        vsnprintf(message, sizeof message, format, values);
    }
    __attribute__((cold, format(printf, 2, 3))) void record(const char* format, ...) {
        va_list values;
        va_start(values, format);
        record(format, values);
        va_end(values);
    }
};

// The launch goes on after a remark, which is what a GPU may forgive, and after a read of an undefined value, which is no
// fault where the value is not used. Of those there is one report for each line of the source that reads one.
struct outcome {
    static constexpr unsigned most = 8;
    report failed, remarked, undefined_reads[most];
    unsigned lines[most] = {};

    // The report of this line; null if the line has one already, or if there are too many.
    CUDALAB_UNWATCHED report* undefined_read(unsigned line) {
        for (unsigned i = 0; i < most; ++i) {
            unsigned free = 0;
            if (__atomic_compare_exchange_n(&lines[i], &free, line, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
                return &undefined_reads[i];
            if (free == line) return nullptr;
        }
        return nullptr;
    }
};
CUDALAB_COMMON outcome* current_outcome;  // of the launch that this worker is part of

[[gnu::cold, gnu::format(printf, 1, 2)]] inline void remark(const char* format, ...) {
    va_list values;
    va_start(values, format);
    current_outcome->remarked.record(format, values);
    va_end(values);
}

[[noreturn]] inline void leave_thread();  // in flat.h or fibers.h: does not return to the kernel

[[noreturn]] __attribute__((cold, format(printf, 1, 2))) void fail(const char* format, ...);

#define CUDALAB_WHERE "block (%u,%u,%u), thread (%u,%u,%u)"
#if CUDALAB_RUNTIME && !CUDALAB_FIBERS
#define CUDALAB_HERE blockIdx.x, blockIdx.y, blockIdx.z, cudalab::thread_of_kernel().x, \
    cudalab::thread_of_kernel().y, cudalab::thread_of_kernel().z
uint3 thread_of_kernel();  // in flat.h
#else
#define CUDALAB_HERE blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z
#endif

#if CUDALAB_RUNTIME
void fail(const char* format, ...) {
    va_list values;
    va_start(values, format);
    current_outcome->failed.record(format, values);
    va_end(values);
    leave_thread();
}
#endif

}  // namespace cudalab

// <assert.h> calls this. glibc's version would end the Python process; on a GPU a failed assert only ends the launch.
#if CUDALAB_RUNTIME
extern "C" [[noreturn]] __attribute__((used)) void __assert_fail(
    const char* what, const char* file, unsigned line, const char*) noexcept {
    cudalab::fail("%s:%u: " CUDALAB_WHERE ": assertion failed: %s", file, line, CUDALAB_HERE, what);
}
#endif

[[noreturn]] inline void __trap() { cudalab::fail(CUDALAB_WHERE " called __trap()", CUDALAB_HERE); }
[[noreturn]] inline void __brkpt() { cudalab::fail(CUDALAB_WHERE " called __brkpt()", CUDALAB_HERE); }
