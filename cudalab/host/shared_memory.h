// Shared memory in fiber mode. The dynamic part is allocated. Static arrays are thread-local variables of this module:
// they lie in one piece of memory, together with a few thread-local variables of the lab.
#pragma once
#include <link.h>

namespace cudalab {

class block_runner;
CUDALAB_COMMON block_runner* running;      // the block on this operating system thread
CUDALAB_COMMON char* dynamic_shared_base;  // `extern __shared__` arrays start here
inline void* dynamic_shared() { return dynamic_shared_base; }

// `extern __shared__ T s[];` at file level becomes a thread-local pointer, which every block sets before it runs.
inline void (*block_setters[64])();
inline unsigned block_setter_count;
inline bool at_block_start(void (*set)()) { return block_setters[block_setter_count++ % 64] = set, true; }
inline void set_dynamic_arrays() {
    for (unsigned i = 0; i < block_setter_count; ++i) block_setters[i]();
}

#if CUDALAB_SANITIZE || !defined(__linux__)
struct static_shared_memory {  // sanitized: they are plain static variables
    void spoil(int) {}
    void put(const char*) {}
    char* start = nullptr;
    size_t bytes = 0;
    uintptr_t base = 0;
};
#else
class static_shared_memory {
public:
    static_shared_memory() { dl_iterate_phdr(find, this); }

    // Overwrites the static arrays with these bytes, and restores the lab's own variables.
    CUDALAB_UNWATCHED void spoil(int contents) { overwrite(contents, nullptr); }
    CUDALAB_UNWATCHED void put(const char* contents) { overwrite(0, contents); }

    CUDALAB_UNWATCHED void overwrite(int contents, const char* from) {
        __asm__ volatile("" ::: "memory");
        const auto index = threadIdx, block = blockIdx;
        const auto block_size = blockDim, grid_size = gridDim;
        const auto runner = running;
        const auto base = dynamic_shared_base;
        const auto outcome = current_outcome;
        const auto order = wanted_order;
        if (from) memcpy(start, from, bytes);
        else memset(start, contents, bytes);
        // No visible code takes the addresses of these, so the compiler would assume that they are unchanged.
        __asm__ volatile("" : "=m"(threadIdx), "=m"(blockIdx), "=m"(blockDim), "=m"(gridDim), "=m"(running));
        __asm__ volatile("" : "=m"(dynamic_shared_base), "=m"(current_outcome), "=m"(wanted_order));
        threadIdx = index, blockIdx = block, blockDim = block_size, gridDim = grid_size;
        running = runner, dynamic_shared_base = base, current_outcome = outcome;
        wanted_order = order;
    }

    char* start = nullptr;
    size_t bytes = 0;
    uintptr_t base = 0;  // where the module is loaded
    const char* variables = nullptr;  // the module's variables, __device__ ones among them
    size_t variables_bytes = 0;

private:
    // Finds the module that holds this function, and its thread-local variables: first those with an initial value, which
    // are the shared arrays of a type that has one (CUDA gives them none), then those of zeros.
    static int find(dl_phdr_info* module, size_t, void* result) {
        const uintptr_t here = reinterpret_cast<uintptr_t>(&find) - module->dlpi_addr;
        bool ours = false;
        const ElfW(Phdr)*variables = nullptr, *writable = nullptr;
        for (unsigned i = 0; i < module->dlpi_phnum; ++i) {
            const ElfW(Phdr)& part = module->dlpi_phdr[i];
            ours |= part.p_type == PT_LOAD && here - part.p_vaddr < part.p_memsz;
            if (part.p_type == PT_TLS) variables = &part;
            if (part.p_type == PT_LOAD && part.p_flags & PF_W) writable = &part;
        }
        if (!ours) return 0;
        if (variables && module->dlpi_tls_data) {
            auto& found = *static_cast<static_shared_memory*>(result);
            found.start = static_cast<char*>(module->dlpi_tls_data);
            found.bytes = variables->p_memsz;
        }
        auto& found = *static_cast<static_shared_memory*>(result);
        found.base = module->dlpi_addr;
        if (writable) {
            found.variables = reinterpret_cast<const char*>(module->dlpi_addr + writable->p_vaddr);
            found.variables_bytes = writable->p_memsz;
        }
        return 1;
    }
};
#endif

}  // namespace cudalab
