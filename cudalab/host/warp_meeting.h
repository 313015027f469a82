// Warp operations, the runtime's side: lanes wait for each other, and each sees what the others brought.
#pragma once

namespace cudalab {

unsigned own_lane() { return running->lane(); }

fiber& coming(operation what, unsigned mask, uint64_t offer, const char* file, unsigned line) {
    fiber& me = running->waiting(state::at_warp, file, line);
    if (!(mask >> own_lane() & 1))
        fail(CUDALAB_WHERE ": the mask 0x%08x of a warp operation lacks the calling lane %u", CUDALAB_HERE, mask, own_lane());
    me.operation = what;
    me.mask = mask;
    me.offer = offer;
    return me;
}

unsigned those_present() { return running->me().present; }

uint64_t brought_by(unsigned lane) { return running->lane_mate(lane).settled; }

static unsigned source_of(source kind, unsigned by, unsigned width) {
    const unsigned lane = own_lane(), first = lane & ~(width - 1), end = first + width;
    switch (kind) {
        case source::of_segment: return first + (by & (width - 1));
        case source::below: return lane < first + by ? lane : lane - by;
        case source::above: return lane + by >= end ? lane : lane + by;
        case source::across: return (lane ^ by) >= end ? lane : lane ^ by;  // into an earlier segment: PTX shfl.bfly
        default: return by;
    }
}

fiber& shuffling(source kind, unsigned by, unsigned width, unsigned mask, uint64_t offer, const char* file, unsigned line) {
    fiber& me = coming(shuffle, mask, offer, file, line);
    me.source = source_of(kind, by, width);
    return me;
}

uint64_t shuffled_bits() {
    const fiber& me = running->me();
    return me.present >> me.source & 1 ? brought_by(me.source) : running->undefined_value();
}

// In CUDA the value from a lane that takes no part is undefined. Here it has a value of each order's own, so that its use
// shows.
uint64_t block_runner::undefined_value() {
    const unsigned line = me().line;
    if (report* const fresh = current_outcome->undefined_read(line)) tell_undefined(*fresh);
    const int usual = coins.undefined();
    const int byte = line != wanted_probe ? usual : usual == 0x7b ? 0xfb : 0x7b;
    return byte * 0x0101010101010101ull;
}

void block_runner::tell_undefined(report& fresh) {
    const fiber& mine = me();
    const unsigned t = current / 32 * 32 + mine.source;
    char why[60] = "has returned";
    if (t >= count) snprintf(why, sizeof why, "does not exist: the block has %u threads", count);
    else if (!(mine.mask >> mine.source & 1)) snprintf(why, sizeof why, "is not in the mask 0x%08x", mine.mask);
    fresh.record("%s:%u: " CUDALAB_WHERE ": this shuffle reads the value of lane %u, which %s; "
                 "CUDA leaves that value undefined", mine.file, mine.line, CUDALAB_HERE, mine.source, why);
}

}  // namespace cudalab
