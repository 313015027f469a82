// Fiber mode, the side of the runtime: how the threads of a block begin, run, wait and end.
#pragma once

namespace cudalab {

block_runner::~block_runner() {
    running = nullptr;
#if CUDALAB_RACES
    if (!others) delete globals;
#endif
    for (unsigned t = 0; fibers && t < count; ++t) delete fibers[t].copies;
    delete awaiting;
    free(tiles), free(fibers), free(room);
}

void block_runner::begin(const turns& turn) {
    for (unsigned t = 0; t < count; ++t) {
        fibers[t].now = state::ready, fibers[t].looks = fibers[t].interrupted = fibers[t].preempted = 0;
        fibers[t].arrived[0] = fibers[t].arrived[1] = 0;
        fibers[t].lowest = ~uintptr_t(0), fibers[t].highest = 0;
    }
    coins = turn, quiet = most_quiet;
    if (awaiting) *awaiting = awaited_copies{};
#if CUDALAB_RACES
    races.barrier(), globals->enter(view), globals->start_block(), handed.start_block();
#endif
}

// No block of the gang can continue, and none looks at memory.
bool gang::stuck() {
    const fiber *here = nullptr, *other = nullptr;
    const member *block = nullptr, *others_block = nullptr;
    for (unsigned b = 0; b < count && !here; ++b)
        for (unsigned t = 0; t < members[b].runner->threads() && !here; ++t)
            if (members[b].runner->thread(t).now == state::at_group) here = &members[b].runner->thread(t), block = &members[b];
    for (unsigned b = 0; b < count && here && !other; ++b) {
        if (here->group == of_cluster && neighbour(b, 0) != neighbour(unsigned(block - members), 0)) continue;
        for (unsigned t = 0; t < members[b].runner->threads() && !other; ++t) {
            const fiber& one = members[b].runner->thread(t);
            if (one.arrived[here->group] < here->arrived[here->group] && !(here->group == of_cluster && one.now == state::done))
                other = &one, others_block = &members[b];
        }
    }
    if (!here || !other) {
        for (unsigned b = 0; b < count; ++b)
            if (!members[b].ended) {
                blockIdx = members[b].index;
                return members[b].runner->all_done();
            }
        return false;
    }
    char where[200];
    if (other->now == state::done) snprintf(where, sizeof where, "has returned without it");
    else snprintf(where, sizeof where, "waits at %s:%u", other->file, other->line);
    current_outcome->failed.record("%s:%u: block (%u,%u,%u), thread (%u,%u,%u) waits at %s for ever: block (%u,%u,%u), thread "
                            "(%u,%u,%u) %s; every thread must arrive",
                            here->file, here->line, block->index.x, block->index.y, block->index.z, here->index.x,
                            here->index.y, here->index.z, barrier_names[here->group], others_block->index.x,
                            others_block->index.y, others_block->index.z, other->index.x, other->index.y,
                            other->index.z, where);
    return false;
}

// The first frame on every stack. It stays there from block to block.
void block_runner::thread_main() {
    arrived(nullptr, &running->scheduler_stack, &running->scheduler_bytes);
    for (;;) {
        running->body(running->arguments);
        if (running->me().copies) running->me().copies->forget();
        running->wait(state::done);
    }
}

copy_queue& block_runner::copies() { return *(me().copies ? me().copies : me().copies = new copy_queue); }

awaited_copies& block_runner::awaited() { return *(awaiting ? awaiting : awaiting = new awaited_copies); }

double* block_runner::room_of_warp() {
    constexpr size_t each = 1280;
    if (!tiles) tiles = static_cast<double*>(calloc((count + 31) / 32 * each, sizeof(double)));
    return tiles + current / 32 * each;
}

fiber& block_runner::waiting(state reason, const char* file, unsigned line) {
    fiber& mine = me();
    mine.now = reason, mine.file = file, mine.line = line;
    return mine;
}

void block_runner::contend() {
    fiber& mine = me();
    if (!coins.shuffled() || mine.interrupted == most_interruptions) return;
    if (mine.interrupted++ >= surely_interrupted && coins.coin()) return;
    interrupted = true;
    wait(state::ready, mine.file, mine.line);
}

void block_runner::wait_until(bool (*until)(const void*, uint64_t), const void* object, uint64_t value, const char* file,
                              unsigned line) {
    while (!until(object, value)) {
        me().until = until, me().object = object, me().value = value;
        wait(state::until, file, line);
    }
}

void block_runner::looked(const void* address, uint64_t value, const void* code) {
    fiber& mine = me();
    mine.code = code;
    if (!address) mine.unsure = true;
    else note(mine, address, value);
    if (++mine.looks < 8) return;
    wait(state::looks, mine.file, mine.line);
    me().looks = 0, me().unsure = false;
}

CUDALAB_UNWATCHED void looked(const void* address, uint64_t value) {
    if (running) running->looked(address, value, __builtin_return_address(0));
}

#if CUDALAB_RACES
CUDALAB_UNWATCHED void touched(const void* address, size_t bytes, bool writes, unsigned strength, void* code) {
    if (!running) return;
    if (!running->touch(address, bytes, writes, strength, code)) leave_thread();
    running->leave(address, bytes, writes, code);  // now: the runtime's own accesses come here too
    if (!writes && strength != volatile_access) running->reads(address, bytes);
}
CUDALAB_UNWATCHED void fenced(bool of_block) {
    if (running) running->fence(of_block);
}
CUDALAB_UNWATCHED void took(const void* address, unsigned strength) {
    if (running && strength != relaxed) running->took(address);
}
CUDALAB_UNWATCHED void past_l1(const void* start, size_t bytes) {
    if (running) running->me().past_l1 = static_cast<const char*>(start), running->me().past_l1_bytes = bytes;
}
CUDALAB_UNWATCHED const handovers& handed_over() { return running->handed; }
#endif

}  // namespace cudalab
