// What the blocks of a launch know of each other's writes to global memory: what each has published by fences, which flags
// and counters tell of it, and which threads have taken that over. global_races.h says what orders two blocks.
#pragma once

namespace cudalab {

#if CUDALAB_RACES
class known_writes {
public:
    struct block_state {  // what is known of a block that lives
        unsigned block = 0;
        uint64_t acquired[1024] = {};  // when each thread last took over what other blocks had published; 0: never
        bool acquires = false;         // whether any has since the last barrier
        // Threads that look at a flag: others may run before they see it. They have seen it when they go on.
        const void* looks[1024] = {};
        unsigned looking = 0;
        uint64_t heard = 0;  // up to when the flags that its threads have accessed tell of other blocks
        uint64_t told[1024] = {};  // the same of each thread, and of those with which it has passed a barrier since
        bool fenced = false;
        uint64_t barrier_at = 0, all_at_barrier = 0;
        uint64_t own[1024] = {}, own_at_barrier[1024] = {}, all[1024] = {};
        uint32_t epoch = 1, warp_epoch[32] = {};
    };

    struct access {
        uint32_t block, epoch, warp_epoch;  // block 0: none yet
        uint16_t thread;
        uint8_t low, high;  // the bytes within the cell
        unsigned kind;
        uint64_t at;
        uint32_t moment;  // of its block's handovers
        uintptr_t code;
    };
    CUDALAB_UNWATCHED ~known_writes() {
        for (size_t b = 0; published && b < blocks; ++b) free(published[b]);
        free(published);
    }
    // Returns whether there is memory for so many blocks.
    CUDALAB_UNWATCHED bool begin(size_t number) {
        blocks = number;
        if (blocks <= 1u << 16) published = static_cast<release**>(calloc(blocks, sizeof(release*)));
        return published;
    }
    CUDALAB_UNWATCHED void start_block() {
        const uint32_t epoch = my->epoch + 1;
        *my = block_state{}, my->epoch = epoch;
        my->block = unsigned((size_t(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x);
    }
    CUDALAB_UNWATCHED void barrier() { ++my->epoch, seen_by(0, 1024), share(0, 1024), my->acquires = false, passed(); }
    CUDALAB_UNWATCHED void warp_barrier(unsigned warp) {
        ++my->warp_epoch[warp], seen_by(32 * warp, 32), share(32 * warp, 32), passed();
    }
    // What the block did before is in order with all that comes after its next atomic access.
    CUDALAB_UNWATCHED void in_order() {
        seen_by(0, 1024), ++my->epoch, my->fenced = true, my->barrier_at = my->all_at_barrier = ++now;
        acquire_for_all(my->heard);
    }
    // What the block did before is there for the other blocks at a barrier, and what they did for this one.
    CUDALAB_UNWATCHED void group_barrier() {
        barrier(), acquire_for_all(~uint64_t(0));
        if (release* const mine = release_of_block()) mine->all = now, mine->note(now, now);
    }
    CUDALAB_UNWATCHED void fence(unsigned thread) {
        seen_by(thread, 1);
        my->fenced = true, my->own[thread] = ++now, my->all[thread] = my->barrier_at;
        if (release* const mine = release_of_block()) mine->fenced[thread] = now;
        acquire(thread, my->heard);
    }
    // An atomic access to shared memory may tell the thread what any of its block has acquired.
    CUDALAB_UNWATCHED void hears(unsigned thread) {
        for (unsigned t = 0; my->acquires && t < 1024; ++t) acquire(thread, my->acquired[t]), tell_of(thread, my->told[t]);
    }
    // The thread has made an atomic operation on this address that may change it.
    CUDALAB_UNWATCHED void took(const void* address, unsigned thread) { acquire(thread, changed.of_others(address, my->block)); }

protected:
    struct release {  // the moments up to which a block's writes are published
        uint64_t all, own[1024];
        uint64_t fenced[1024];  // each thread's last fence, published or not
        struct { uint64_t time, upto; } first[8];  // when any of its writes up to a moment were, for the first few
        unsigned noted;
        CUDALAB_UNWATCHED void note(uint64_t time, uint64_t upto) {
            if (noted < sizeof first / sizeof *first && (!noted || first[noted - 1].upto < upto)) first[noted++] = {time, upto};
        }
    };

    // Whether it finds what another block did, by what each thread knows of other blocks.
    CUDALAB_UNWATCHED bool visible(const access& old, bool old_writes, unsigned thread, const uint64_t* known) const {
        if (!known[thread] || !old_writes || old.kind != plain) return known[thread];
        return is_published(old) && (my->looks[thread] || is_told(old, known[thread]));
    }
    CUDALAB_UNWATCHED bool is_published(const access& old) const {
        const release* const of = published[old.block - 1];
        return of && (old.at <= of->all || old.at <= of->own[old.thread]);
    }
    // Whether an access of another block was published before this thread acquired last.
    CUDALAB_UNWATCHED bool is_acquired(const access& old, unsigned thread) const {
        return my->acquired[thread] && is_published(old) && (my->looks[thread] || is_told(old, my->acquired[thread]));
    }
    // Whether it was published before a flag or counter changed that any thread of this block has seen. Where another thread
    // than its own sets the flag, without a barrier between them, any fence of its own counts.
    CUDALAB_UNWATCHED bool is_there(const access& old, unsigned thread) const {
        if (!is_published(old)) return published[old.block - 1] && old.at <= published[old.block - 1]->fenced[old.thread];
        return (is_told(old, my->acquired[thread]) || is_told(old, my->heard));
    }
    // Whether it, which was published, had been at this moment.
    CUDALAB_UNWATCHED bool is_told(const access& old, uint64_t moment) const {
        const release* const of = published[old.block - 1];
        for (unsigned i = 0; i < of->noted; ++i)
            if (old.at <= of->first[i].upto) return of->first[i].time <= moment;
        return true;
    }
    CUDALAB_UNWATCHED void seen_by(unsigned first, unsigned count) {
        for (unsigned t = first; my->looking && t < first + count; ++t)
            if (const void* const flag = my->looks[t])
                my->looks[t] = nullptr, --my->looking, hear(t, flag);
    }
    CUDALAB_UNWATCHED void hear(unsigned thread, const void* flag) {
        const uint64_t moment = changed.of_others(flag, my->block);
        if (my->heard < moment) my->heard = moment;
        tell_of(thread, moment);
    }
    CUDALAB_UNWATCHED void tell_of(unsigned thread, uint64_t moment) {
        if (my->told[thread] < moment) my->told[thread] = moment, my->acquires = true;
    }
    CUDALAB_UNWATCHED void acquire(unsigned thread, uint64_t moment) {
        if (my->acquired[thread] < moment) my->acquired[thread] = moment, my->acquires = true;
    }
    CUDALAB_UNWATCHED void acquire_for_all(uint64_t moment) {
        for (uint64_t& one : my->acquired) one = one > moment ? one : moment;
    }
    CUDALAB_UNWATCHED bool others_acquired(unsigned thread) const {
        for (uint64_t one : my->acquired)
            if (one > my->acquired[thread]) return true;
        return false;
    }
    // A barrier of these threads: each has acquired what any of them has.
    CUDALAB_UNWATCHED void share(unsigned first, unsigned count) {
        if (!my->acquires) return;
        uint64_t latest = 0, told = 0;
        for (unsigned t = first; t < first + count; ++t)
            latest = my->acquired[t] > latest ? my->acquired[t] : latest, told = my->told[t] > told ? my->told[t] : told;
        for (unsigned t = first; t < first + count; ++t) my->acquired[t] = latest, my->told[t] = told;
    }
    CUDALAB_UNWATCHED void passed() {
        my->barrier_at = ++now;
        if (!my->fenced) return;
        memcpy(my->own_at_barrier, my->own, sizeof my->own);
        for (uint64_t one : my->all) my->all_at_barrier = one > my->all_at_barrier ? one : my->all_at_barrier;
    }
    CUDALAB_UNWATCHED release* release_of_block() {
        if (!published) return nullptr;
        release*& found = published[my->block];
        return found ? found : found = static_cast<release*>(calloc(1, sizeof(release)));
    }
    CUDALAB_UNWATCHED void publish(unsigned thread) {
        release* const mine = release_of_block();
        if (!mine || !my->fenced) return;
        uint64_t upto = 0;
        for (unsigned t = 0; t < 1024; ++t) {
            if (my->own_at_barrier[t] > mine->own[t]) mine->own[t] = my->own_at_barrier[t];
            if (mine->own[t] > upto) upto = mine->own[t];
        }
        if (my->own[thread] > mine->own[thread]) mine->own[thread] = my->own[thread];
        if (my->all_at_barrier > mine->all) mine->all = my->all_at_barrier;
        if (my->all[thread] > mine->all) mine->all = my->all[thread];
        if (mine->own[thread] > upto) upto = mine->own[thread];
        mine->note(now, mine->all > upto ? mine->all : upto);
    }

    block_state* my = nullptr;  // of the block that runs
    flag_times changed;
    size_t blocks = 0;
    release** published = nullptr;
    uint64_t now = 1;
};
#endif

}  // namespace cudalab
