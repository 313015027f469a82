// The failure of a launch, and how a CUDA thread ends because of it.
#pragma once
#include <stdarg.h>
#include <stdio.h>

namespace cudalab {

// One per launch, shared by its workers. The first message is kept.
struct failure {
    bool happened_ = false;
    char message[512] = "";

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

static thread_local failure* current_failure;  // of the launch that this worker is part of
static thread_local failure* current_remark;   // the same for what a GPU may forgive: the launch goes on

[[gnu::cold, gnu::format(printf, 1, 2)]] inline void remark(const char* format, ...) {
    va_list values;
    va_start(values, format);
    current_remark->record(format, values);
    va_end(values);
}

[[noreturn]] inline void leave_thread();  // in flat.h or fibers.h: does not return to the kernel

[[noreturn]] __attribute__((cold, noinline, format(printf, 1, 2))) inline void fail(const char* format, ...) {
    va_list values;
    va_start(values, format);
    current_failure->record(format, values);
    va_end(values);
    leave_thread();
}

#define CUDALAB_WHERE "block (%u,%u,%u), thread (%u,%u,%u)"
#define CUDALAB_HERE blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z

}  // namespace cudalab

// <assert.h> calls this. glibc's version would end the Python process; on a GPU a failed assert only ends the launch.
extern "C" [[noreturn]] __attribute__((used)) inline void __assert_fail(
    const char* what, const char* file, unsigned line, const char*) noexcept {
    cudalab::fail("%s:%u: " CUDALAB_WHERE ": assertion failed: %s", file, line, CUDALAB_HERE, what);
}

[[noreturn]] inline void __trap() { cudalab::fail(CUDALAB_WHERE " called __trap()", CUDALAB_HERE); }
[[noreturn]] inline void __brkpt() { cudalab::fail(CUDALAB_WHERE " called __brkpt()", CUDALAB_HERE); }
