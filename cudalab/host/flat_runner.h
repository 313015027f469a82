// Flat mode, the runtime's side: one block after another.
#pragma once
#include <setjmp.h>

namespace cudalab {

// Never read, since no kernel in this mode uses shared memory. It only mirrors fibers.h.
static thread_local jmp_buf leave;

[[noreturn]] inline void leave_thread() { longjmp(leave, 1); }

class block_runner {
public:
    block_runner(kernel_body body, void** arguments, size_t, uint64_t order, crowd&)
        : body(body), arguments(arguments), order(order) {}
    bool run_block(uint64_t block) {
        if (_setjmp(leave)) return false;
        const bool as_written = order == alternating || order == forwards;
        if (!as_written) turns(order, block).fill(places, blockDim.x * blockDim.y * blockDim.z);
        body(arguments, {blockIdx, blockDim, gridDim, as_written ? nullptr : places});
        return true;
    }

    void check_shared_memory() const {}

private:
    kernel_body body;
    void** arguments;
    uint64_t order;
    uint16_t places[1024];
};

}  // namespace cudalab
