// One CUDA thread with a stack of its own.
#pragma once
#include <utility>

namespace cudalab {

// looks: at memory, again and again, that another thread is to change; until: as `looks`, with a condition;
// gone: left through fail().
enum class state : uint8_t { ready, at_block, at_warp, at_group, looks, until, done, gone };

class copy_queue;

struct fiber {
    context where;
    uint3 index;
    state now;
    const char* file;      // where it waits
    unsigned line;
    bool vote;             // at a block barrier: the predicate
    unsigned operation;    // at a warp operation: which one (all lanes must be at the same one) ...
    unsigned mask;         // ... the lanes it waits for ...
    uint64_t offer;        // ... what it brings ...
    unsigned source;       // ... from which lane a shuffle takes its value ...
    unsigned present;      // ... and, afterwards, which lanes took part and what each of them brought
    uint64_t settled;
    uint8_t interrupted;   // how often, before an atomic operation ...
    uint8_t preempted;     // ... and before other accesses
    const char* past_l1;   // where it reads past L1 now, and how much
    size_t past_l1_bytes;
    unsigned looks;        // at memory that others may change, since it began to run
    const void* code;      // the instruction that looked last
    bool unsure;           // whether one of these looks does not say at what
    struct { const void* address; uint64_t value; } seen[16];  // what it looked at
    unsigned next_seen;
    uintptr_t lowest, highest;  // of the addresses at which it has looked
    bool (*until)(const void*, uint64_t);  // what it waits for, of this object and value
    const void* object;
    uint64_t value;
    bool looked_last;      // it waited for memory when it stopped
    copy_queue* copies;    // asynchronous ones that have not landed
    unsigned arrived[2];   // how often at the barrier of the cluster, and of the grid (gang.h) ...
    uint8_t group;         // ... and for which of them it waits
};

class gang;

template <auto kernel> struct one_thread;
template <class... A, void (*kernel)(A...)> struct one_thread<kernel> {
    template <size_t... i> static void unpack(void** arguments, std::index_sequence<i...>) {
        kernel(*static_cast<std::remove_const_t<A>*>(arguments[i])...);
    }
    static void run(void** arguments) { unpack(arguments, std::index_sequence_for<A...>{}); }
};
template <auto kernel> constexpr auto body_of = &one_thread<kernel>::run;  // runs one thread
using kernel_body = void (*)(void**);

constexpr unsigned activemask_operation = 0;

}  // namespace cudalab
