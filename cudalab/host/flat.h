// Flat mode: no thread ever waits for another, so a block is a loop over its threads that can be vectorised.
#pragma once
#include <setjmp.h>
#include <utility>

namespace cudalab {

// Never read, since no kernel in this file uses shared memory. It only mirrors fibers.h.
static thread_local jmp_buf leave;

[[noreturn]] inline void leave_thread() { longjmp(leave, 1); }

// No file that waits for other threads runs in this mode (source.py).
CUDALAB_INLINE void looked(const void*, uint64_t) {}
CUDALAB_INLINE void changed() {}

template <auto kernel> struct flat_block;
template <class... A, void (*kernel)(A...)> struct flat_block<kernel> {
    // `flatten` inlines the kernel and all it calls: only then can the compiler vectorise the loop over x.
    // Arguments are passed by value, so that the kernel's stores cannot change them.
    __attribute__((noinline, flatten)) static void all_threads(A... arguments) {
        for (unsigned z = 0; z < blockDim.z; ++z)
            for (unsigned y = 0; y < blockDim.y; ++y)
                for (unsigned x = 0; x < blockDim.x; ++x) {
                    threadIdx = {x, y, z};
                    kernel(arguments...);
                }
    }
    // The block in another order, thread by thread.
    static void one_by_one(const uint16_t* places, A... arguments) {
        const unsigned count = blockDim.x * blockDim.y * blockDim.z;
        for (unsigned i = 0; i < count; ++i) {
            const unsigned t = places[i];
            threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
            kernel(arguments...);
        }
    }
    template <size_t... i> static void unpack(void** arguments, const uint16_t* places, std::index_sequence<i...>) {
        if (places) one_by_one(places, *static_cast<std::remove_const_t<A>*>(arguments[i])...);
        else all_threads(*static_cast<std::remove_const_t<A>*>(arguments[i])...);
    }
    static void run(void** arguments, const uint16_t* places) {
        unpack(arguments, places, std::index_sequence_for<A...>{});
    }
};
template <auto kernel> constexpr auto body_of = &flat_block<kernel>::run;  // runs one block

class block_runner {
public:
    using block_body = void (*)(void**, const uint16_t*);
    block_runner(block_body body, void** arguments, size_t, uint64_t order, crowd&)
        : body(body), arguments(arguments), order(order) {}
    bool run_block(uint64_t block) {
        if (_setjmp(leave)) return false;
        const bool as_written = order == alternating || order == forwards;
        if (!as_written) turns(order, block).fill(places, blockDim.x * blockDim.y * blockDim.z);
        body(arguments, as_written ? nullptr : places);
        return true;
    }

    void check_shared_memory() const {}

private:
    block_body body;
    void** arguments;
    uint64_t order;
    uint16_t places[1024];
};

}  // namespace cudalab
