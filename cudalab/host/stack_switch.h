// A stack that can be left and entered again: `context`, `start` and `switch_to`.
//
// On x86-64 Linux a switch is a dozen instructions. Elsewhere it is swapcontext(), which makes two system calls and is
// about ten times slower.
#pragma once

#if defined(__x86_64__) && defined(__linux__) && !defined(CUDALAB_UCONTEXT)

namespace cudalab {
struct context { void* stack_pointer; };
}

// At file level, so that the compiler sees a call to an unknown function, and stores threadIdx before it and loads it
// again after it. Saves the registers that the System V ABI preserves, swaps stacks, restores the registers.
extern "C" __attribute__((visibility("hidden"))) void cudalab_switch_stack(void** save, void* load);
__asm__(
    ".text\n"
    ".type cudalab_switch_stack, @function\n"
    "cudalab_switch_stack:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  popq %rcx\n  jmp *%rcx\n"  // not `ret`: the return predictor would mispredict the other stack's caller
    ".size cudalab_switch_stack, . - cudalab_switch_stack\n");

namespace cudalab {

inline void switch_to(context& from, context& to) { cudalab_switch_stack(&from.stack_pointer, to.stack_pointer); }

// The first switch pops six registers and "returns" into `entry`, which must never return itself. The extra word keeps
// the stack aligned as after a call.
inline void start(context& fresh, char* stack, size_t bytes, void (*entry)()) {
    void** top = reinterpret_cast<void**>(stack + bytes);
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(entry);
    for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
    fresh.stack_pointer = top;
}

}  // namespace cudalab

#else
#include <ucontext.h>

namespace cudalab {

struct context { ucontext_t state; };

inline void switch_to(context& from, context& to) { swapcontext(&from.state, &to.state); }

inline void start(context& fresh, char* stack, size_t bytes, void (*entry)()) {
    getcontext(&fresh.state);
    fresh.state.uc_stack.ss_sp = stack;
    fresh.state.uc_stack.ss_size = bytes;
    fresh.state.uc_link = nullptr;
    makecontext(&fresh.state, entry, 0);
}

}  // namespace cudalab

#endif
