// Flat mode: no thread ever waits for another, so a block is a loop over its threads that can be vectorised.
#pragma once
#include <setjmp.h>
#include <utility>

namespace cudalab {

// Nothing may be read from here: no kernel in this file names shared memory. It only mirrors fibers.h.
static thread_local jmp_buf leave;

[[noreturn]] inline void leave_thread() { longjmp(leave, 1); }

template <auto kernel> struct flat_block;
template <class... A, void (*kernel)(A...)> struct flat_block<kernel> {
    // `flatten` inlines the kernel and all it calls: only then can the loop over x become vector code.
    // Arguments come by value, out of reach of the kernel's own stores.
    __attribute__((noinline, flatten)) static void all_threads(A... arguments) {
        for (unsigned z = 0; z < blockDim.z; ++z)
            for (unsigned y = 0; y < blockDim.y; ++y)
                for (unsigned x = 0; x < blockDim.x; ++x) {
                    threadIdx = {x, y, z};
                    kernel(arguments...);
                }
    }
    template <size_t... i> static void unpack(void** arguments, std::index_sequence<i...>) {
        all_threads(*static_cast<std::remove_const_t<A>*>(arguments[i])...);
    }
    static void run(void** arguments) { unpack(arguments, std::index_sequence_for<A...>{}); }
};
template <auto kernel> constexpr auto body_of = &flat_block<kernel>::run;  // runs one block

class block_runner {
public:
    block_runner(void (*body)(void**), void** arguments, size_t) : body(body), arguments(arguments) {}
    bool run_block() {
        if (_setjmp(leave)) return false;
        body(arguments);
        return true;
    }

private:
    void (*body)(void**);
    void** arguments;
};

}  // namespace cudalab
