// The order in which blocks, warps and threads run. CUDA guarantees none, so a correct kernel gives the same result in
// every order; a check runs a kernel in several.
#pragma once
#include <numeric>

namespace cudalab {

// Every other number is the seed of a shuffle. `alternating`: neighbouring blocks go in opposite directions.
enum : uint64_t { alternating, forwards, backwards };

static thread_local uint64_t wanted_order;  // of the next launch from this thread

class turns {
public:
    turns(uint64_t order, uint64_t block = 0) : order(order), state(order ^ block * 0x9e3779b97f4a7c15ull) {
        upwards = order == forwards || (order == alternating && (blockIdx.x + blockIdx.y + blockIdx.z) % 2 == 0);
    }
    bool shuffled() const { return order > backwards; }
    bool coin() { return next() & 1; }

    // A permutation of n: the first to run, the second, ...
    template <class Place> void fill(Place* places, unsigned n) {
        for (unsigned i = 0; i < n; ++i) places[i] = Place(upwards || shuffled() ? i : n - 1 - i);
        if (shuffled())
            for (unsigned i = n; i > 1; --i) std::swap(places[i - 1], places[next() % i]);
    }

    // A step with which i -> (first + i * step) % blocks visits every block once.
    uint64_t step(uint64_t blocks) {
        uint64_t found = next() % blocks;
        while (std::gcd(found, blocks) != 1) ++found;
        return found;
    }
    uint64_t next() {  // splitmix64
        uint64_t z = state += 0x9e3779b97f4a7c15ull;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        return z ^ z >> 31;
    }

private:
    uint64_t order, state;
    bool upwards;
};

}  // namespace cudalab
