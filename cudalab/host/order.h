// The order in which blocks, warps and threads run. CUDA guarantees none, so a correct kernel gives the same result in
// every order; a check runs a kernel in several.
#pragma once
#include <utility>

namespace cudalab {

// Every other number is the seed of a shuffle. `alternating`: neighbouring blocks go in opposite directions.
enum : uint64_t { alternating, forwards, backwards };

CUDALAB_COMMON uint64_t wanted_order;  // of the next launch from this thread
// A line of the source that gets other undefined values than usual: does the result depend on them? Not thread-local: shared
// memory begins with other contents.
inline unsigned wanted_probe;

class turns {
public:
    turns(uint64_t order, uint64_t block = 0) : order(order), state(order ^ block * 0x9e3779b97f4a7c15ull) {
        upwards = order == forwards || (order == alternating && (blockIdx.x + blockIdx.y + blockIdx.z) % 2 == 0);
    }
    CUDALAB_UNWATCHED bool shuffled() const { return order > backwards; }
    CUDALAB_UNWATCHED bool coin() { return next() & 1; }

    // The byte that values which CUDA leaves undefined consist of, such as shared memory at first. All ones is NaN in every
    // floating point format, but also a true `bool`, an index below all others, and a value that a maximum and a minimum
    // ignore. So each of the orders that a check tries has another one: of a large number, a negative one, zeros.
    int undefined() const { return shuffled() ? 0 : order == forwards ? 0x7b : order == backwards ? 0xfb : 0xff; }

    // A permutation of n: the first to run, the second, ...
    template <class Place> void fill(Place* places, unsigned n) {
        for (unsigned i = 0; i < n; ++i) places[i] = Place(upwards || shuffled() ? i : n - 1 - i);
        if (shuffled())
            for (unsigned i = n; i > 1; --i) std::swap(places[i - 1], places[next() % i]);
    }

    // A step with which i -> (first + i * step) % blocks visits every block once.
    uint64_t step(uint64_t blocks) {
        uint64_t found = next() % blocks;
        while (!coprime(found, blocks)) ++found;
        return found;
    }
    CUDALAB_UNWATCHED uint64_t next() {  // splitmix64
        uint64_t z = state += 0x9e3779b97f4a7c15ull;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        return z ^ z >> 31;
    }

private:
    static bool coprime(uint64_t a, uint64_t b) {
        while (b) a = std::exchange(b, a % b);
        return a == 1;
    }
    uint64_t order, state;
    bool upwards;
};

}  // namespace cudalab
