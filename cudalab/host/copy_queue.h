// Asynchronous copies that have been issued. A copy lands as late as CUDA allows: at the wait that guarantees it. Until
// then the destination keeps its old contents. In a shuffled order some land at once, which CUDA allows too.
#pragma once
#include <vector>

namespace cudalab {

struct async_copy {
    char* to;
    const char* from;
    unsigned bytes, zeros;  // `zeros` of the bytes, at the end, become 0 and are not read
    const char* file;
    unsigned line;
    const void* code;
    char before[16];  // what the destination held
    bool landed;      // at once

    CUDALAB_UNWATCHED void land() const {
        if (memcmp(to, before, bytes))
            fail("%s:%u: " CUDALAB_WHERE ": the destination of this asynchronous copy was written, by a thread or another copy, "
                 "before the copy was waited for", file, line, CUDALAB_HERE);
        if (!landed) store();
    }
    CUDALAB_UNWATCHED void store() const {
        if (bytes > zeros) touched(from, bytes - zeros, false, plain, const_cast<void*>(code));
        touched(to, bytes, true, plain, const_cast<void*>(code));
        memcpy(to, from, bytes - zeros);
        memset(to + bytes - zeros, 0, zeros);
    }
};

// The copies of one thread: those of a batch are between two commits.
class copy_queue {
public:
    void add(const async_copy& one) { waiting.push_back({one, batch}); }
    void commit() { ++batch; }
    // All batches but the last `prior` have landed.
    void wait_prior(unsigned long long prior) {
        if (prior > 8) prior = 8;  // no function of CUDA waits for fewer
        auto end = waiting.begin();
        while (end != waiting.end() && end->batch + prior < batch) ++end;
        const std::vector<entry> due(waiting.begin(), end);
        waiting.erase(waiting.begin(), end);
        for (const entry& e : due) e.copy.land();
    }
    // Gives all copies to somebody else, who waits for them.
    template <class Take> void hand_over(Take take) {
        for (const entry& e : waiting) take(e.copy);
        waiting.clear();
    }
    void forget() { waiting.clear(), batch = 0; }

private:
    struct entry {
        async_copy copy;
        unsigned long long batch;
    };
    std::vector<entry> waiting;
    unsigned long long batch = 0;  // the open one
};

struct bound_copy {
    async_copy copy;
    const void* barrier;
    unsigned phase;
};

struct transaction {
    const void* barrier;
    long long bytes;
};

// What the barriers of a block wait for.
struct awaited_copies {
    std::vector<bound_copy> bound;
    std::vector<transaction> transactions;
};

}  // namespace cudalab
