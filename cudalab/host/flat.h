// Flat mode: no thread ever waits for another, so a block is a loop over its threads that can be vectorised.
#pragma once
#include <utility>

namespace cudalab {

// No file that waits for other threads runs in this mode (source.py).
CUDALAB_INLINE void looked(const void*, uint64_t) {}
CUDALAB_INLINE void changed() {}
CUDALAB_INLINE void contend() {}

// Where a block is, as the runtime tells the kernel, and in which order its threads run; null: as they are numbered.
struct block_place {
    uint3 index;
    dim3 size, grid;
    const uint16_t* order;
};

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
    static void one_by_one(const uint16_t* order, A... arguments) {
        const unsigned count = blockDim.x * blockDim.y * blockDim.z;
        for (unsigned i = 0; i < count; ++i) {
            threadIdx = thread_at(order[i]);
            kernel(arguments...);
        }
    }
    template <size_t... i> static void unpack(void** arguments, const uint16_t* order, std::index_sequence<i...>) {
        if (order) one_by_one(order, *static_cast<std::remove_const_t<A>*>(arguments[i])...);
        else all_threads(*static_cast<std::remove_const_t<A>*>(arguments[i])...);
    }
    static void run(void** arguments, const block_place& here) {
        blockIdx = here.index, blockDim = here.size, gridDim = here.grid;
        unpack(arguments, here.order, std::index_sequence_for<A...>{});
    }
};
template <auto kernel> constexpr auto body_of = &flat_block<kernel>::run;  // runs one block
using kernel_body = void (*)(void**, const block_place&);

#if !CUDALAB_RUNTIME
uint3 thread_of_kernel() { return threadIdx; }  // for the runtime
#endif

}  // namespace cudalab
