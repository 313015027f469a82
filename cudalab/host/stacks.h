// Memory for the stacks of a block's threads. Protecting and touching its pages takes longer than a small block runs,
// so the memory is kept for the next launches, until another module launches.
#pragma once
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace cudalab {

constexpr size_t stack_bytes = 256 << 10;

class stacks {
public:
    // `memory` is null if there is none. It may still hold the frames of an earlier launch or block.
    // `given`: memory of a gang; null: memory of our own.
    explicit stacks(unsigned count, char* given = nullptr) : memory(given), count(count), own(!given) {
        if (given) return;
        if ((memory = taken(count))) {
            allow(memory, count * stack_bytes);
            return;
        }
        // Untouched pages cost nothing. A protected page between stacks stops a kernel whose local arrays overflow before
        // it corrupts its neighbour.
        if ((memory = fresh(count))) protect(memory, count);
    }
    ~stacks() {
        if (memory && own) keep(memory, count);
    }
    stacks(const stacks&) = delete;

    explicit operator bool() const { return memory; }
    char* of(unsigned thread) const { return memory + thread * stack_bytes; }

    // Stacks without protected pages; null if there is no memory.
    static char* fresh(size_t count) {
        void* const found = mmap(nullptr, count * stack_bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (found == MAP_FAILED) return nullptr;
        allow(found, count * stack_bytes);  // of memory that was used before, with other frames
        return static_cast<char*>(found);
    }
    static void protect(char* memory, size_t count) {
        const size_t page = size_t(sysconf(_SC_PAGESIZE));
        for (size_t t = 0; t < count; ++t) mprotect(memory + t * stack_bytes, page, PROT_NONE);
    }
    static void released(char* memory, size_t count) {
        allow(memory, count * stack_bytes);
        munmap(memory, count * stack_bytes);
    }

    // Frees what is kept: a process may have 65530 mappings, and a block of 1024 threads has 2048.
    static void forget() {
        pthread_mutex_lock(&lock);
        for (kept& one : kept_stacks) {
            if (one.memory) released(one.memory, one.count);
            one = kept{};
        }
        pthread_mutex_unlock(&lock);
    }

private:
    struct kept {
        char* memory;
        unsigned count;
    };
    static inline kept kept_stacks[4];  // a small grid runs on few of the operating system's threads
    static inline pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    static char* taken(unsigned count) {
        char* found = nullptr;
        pthread_mutex_lock(&lock);
        for (kept& one : kept_stacks)
            if (!found && one.memory && one.count == count) found = one.memory, one = kept{};
        pthread_mutex_unlock(&lock);
        return found;
    }
    static void keep(char* memory, unsigned count) {
        kept old{memory, count};  // goes to the first place, and the others move up by one
        pthread_mutex_lock(&lock);
        for (kept& one : kept_stacks) {
            std::swap(one, old);
            if (!old.memory) break;
        }
        pthread_mutex_unlock(&lock);
        if (old.memory) released(old.memory, old.count);
    }
    char* memory;
    unsigned count;
    bool own;
};

}  // namespace cudalab
