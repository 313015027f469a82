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
    coins = turn, quiet = most_quiet, barriers.begin();
    for (rounds& one : warp_barriers) one.begin();
    if (awaiting) *awaiting = awaited_copies{};
#if CUDALAB_RACES
    races.barrier(), globals->enter(view), globals->start_block(), handed.start_block();
#endif
}

void block_runner::advance(turns& turn) {
    const unsigned warps = (count + 31) / 32;
    bool stopped;
    do {
        uint8_t places[32];
        turn.fill(places, warps);
        stopped = false;
        for (unsigned i = 0; i < warps; ++i) stopped |= run_warp(32 * places[i], turn);
        if (others && interrupted) {  // another block of the gang runs next
            changed_in(*others);
            break;
        }
    } while (stopped || release_block() || look_again());
    interrupted = false;
#if CUDALAB_RACES
    globals->settle();
#endif
}

// No warp can continue. Wakes the threads whose condition holds, and those that look at memory again and again. Where
// these find nothing new, it is not sure that the others of their warp or block get anywhere when they pass a barrier
// with them.
bool block_runner::look_again() {
    settle_store();
#if CUDALAB_RACES
    globals->settle();
#endif
    unsigned looking = 0, circling = 0, woken = 0, unsure = 0;
    for (unsigned t = 0; t < count; ++t) {
        fiber& one = fibers[t];
        if (one.now == state::until && one.until(one.object, one.value)) one.now = state::ready, ++woken;
        else if (one.now == state::looks) ++looking, circling += one.circles, unsure += one.unsure;
    }
    quiet += looks_again();
    if (!(woken + looking) || current_outcome->failed.happened()) return false;
    unsure += woken + (passes != passes_before && !circling), passes_before = passes;
    if (changes != changes_before || (woken && !looks_again())) {
        changes_before = changes;
        if (others) changed_in(*others);
        else workers.changed(mine);
    } else if (others) {  // another block of the gang runs next
        wake_looking();
        wait_in(*others, !unsure);
        return false;
    } else if (!workers.waited(mine, count, !unsure)) {
        tell_who_looks(fibers, count, workers.blocks_left(workers.job), module_base());
        return false;
    }
    wake_looking();
    return true;
}

void block_runner::wake_looking() {
    for (unsigned t = 0; t < count; ++t)
        if (fibers[t].now == state::looks) fibers[t].now = state::ready, fibers[t].looked_last = true;
        else fibers[t].looked_last = false;
}

bool block_runner::run_warp(unsigned first, turns& turn) {
    const unsigned lanes = count - first < 32 ? count - first : 32;
    do {
        bool ready = false;
        uint8_t places[32];
        turn.fill(places, lanes);
        for (unsigned i = 0; i < lanes; ++i) {
            current = first + places[i];
            if (me().now != state::ready) continue;
            threadIdx = me().index;
            void* fake = nullptr;
            leaving(&fake, stack.of(current), stack_bytes);
            in_thread = true;
            switch_to(scheduler, me().where);
            in_thread = false;
            arrived(fake, nullptr, nullptr);
            (meets(me().now) ? passes : changes) += me().now != state::looks && me().now != state::until;
            ready |= me().now == state::ready;
        }
        if (!release_warp(first, lanes)) return ready;
#if CUDALAB_RACES
        races.warp_barrier(first / 32), globals->warp_barrier(first / 32), handed.warp_barrier(first / 32);
#endif
    } while (!turn.shuffled() || turn.coin());
    return true;
}

// Offers are copied before any lane continues: a fast lane may make its next offer while a slow one still reads.
static unsigned settled(fiber* warp, unsigned present) {
    for (unsigned lane = 0; lane < 32; ++lane)
        if (present >> lane & 1) {
            warp[lane].present = present;
            warp[lane].settled = warp[lane].offer;
        }
    return present;
}

// Every lane has run as far as it can. Complete the warp operations that all their lanes have reached.
bool block_runner::release_warp(unsigned first, unsigned lanes) {
    fiber* const warp = fibers + first;
    unsigned released = 0;
    for (unsigned lane = 0; lane < lanes; ++lane) {
        if (warp[lane].now != state::at_warp || (released >> lane & 1)) continue;
        const bool any_will_do = warp[lane].operation == activemask_operation;
        bool complete = true;
        unsigned present = 0;
        for (unsigned other = 0; other < lanes; ++other) {
            if (!(warp[lane].mask >> other & 1) || warp[other].now == state::done) continue;
            const bool same = warp[other].now == state::at_warp && warp[other].mask == warp[lane].mask &&
                              warp[other].operation == warp[lane].operation &&
                              (!any_will_do || warp[other].line == warp[lane].line);
            if (same) present |= 1u << other;
            else complete = complete && any_will_do;
        }
        if (complete) released |= settled(warp, present);
    }
    if (!released) return false;
    const bool circles = warp_barriers[first / 32].circling([&] { return digest_of_threads(first, first + lanes); },
                                                            [&] { return digest_of_memory(); });
    for (unsigned lane = 0; lane < lanes; ++lane)
        if (released >> lane & 1) pass(warp[lane], circles);
    return true;
}

// A block barrier waits for all threads that have not returned.
bool block_runner::release_block() {
    unsigned waiting = 0, votes_now = 0;
    for (unsigned t = 0; t < count; ++t) {
        if (fibers[t].now == state::done) continue;
        if (fibers[t].now != state::at_block) return false;
        ++waiting;
        votes_now += fibers[t].vote;
    }
    if (!waiting) return false;
    if (!current_outcome->remarked.happened()) look_for_another_barrier(fibers, count);
    voters = waiting;
    votes = votes_now;
#if CUDALAB_RACES
    races.barrier(), globals->barrier();
#endif
    const bool circles = barriers.circling([&] { return digest_of_threads(0, count); }, [&] { return digest_of_memory(); });
    for (unsigned t = 0; t < count; ++t)
        if (fibers[t].now == state::at_block) pass(fibers[t], circles);
    return !circles;
}

CUDALAB_UNWATCHED uint64_t block_runner::digest_of_threads(unsigned first, unsigned end) const {
    uint64_t sum = 0;
    for (unsigned t = first; t < end; ++t)
        sum = digest_of(fibers[t].where.end(), size_t(top_of(t) - fibers[t].where.end()), sum);
    return sum;
}

CUDALAB_UNWATCHED uint64_t block_runner::digest_of_memory() const {
    threadIdx = uint3{};  // it is among the static shared arrays
    return digest_of(static_shared.start, static_shared.bytes, digest_of(shared_memory, shared_bytes, digest_of_arrays()));
}

// Of the arrays of the launch and the module's variables.
CUDALAB_UNWATCHED uint64_t block_runner::digest_of_arrays() const {
    uint64_t sum = 0;
#if CUDALAB_RACES
    lost = last_access{};  // one of those variables
#endif
#if !CUDALAB_SANITIZE && defined(__linux__)
    sum = digest_of(static_shared.variables, static_shared.variables_bytes, sum);
#endif
    for (unsigned i = 0; i < wanted_array_count; ++i) sum = digest_of(wanted_arrays[i].start, wanted_arrays[i].bytes, sum);
    return sum;
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
