// cub::BlockHistogram. The counters may be in shared or in global memory.
#pragma once
#include "../util_type.cuh"

namespace cub {

enum BlockHistogramAlgorithm { BLOCK_HISTO_SORT, BLOCK_HISTO_ATOMIC };

template <class T, int BLOCK_DIM_X, int ITEMS_PER_THREAD, int BINS, BlockHistogramAlgorithm ALGORITHM = BLOCK_HISTO_SORT,
          int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1, int = 0>
class BlockHistogram {
    static constexpr int threads = BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z, items = ITEMS_PER_THREAD;

public:
    struct TempStorage { NullType nothing; };
    BlockHistogram() : tid(RowMajorTid(BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z)) {}
    BlockHistogram(TempStorage&) : BlockHistogram() {}

    template <class Counter> void InitHistogram(Counter counters[BINS]) {
        for (int bin = tid; bin < BINS; bin += threads) counters[bin] = 0;
    }
    template <class Counter> void Histogram(T (&in)[items], Counter counters[BINS], CUDALAB_PLACE) {
        InitHistogram(counters);
        __syncthreads(file, line);
        Composite(in, counters, file, line);
    }
    template <class Counter> void Composite(T (&in)[items], Counter counters[BINS], CUDALAB_PLACE) {
        for (int i = 0; i < items; ++i) {
            const unsigned bin = unsigned(in[i]);
            if (bin >= unsigned(BINS))
                cudalab::fail("%s:%u: " CUDALAB_WHERE ": bin %u is not one of %d bins", file, line, CUDALAB_HERE, bin, BINS);
            atomicAdd(counters + bin, Counter(1));
        }
    }

private:
    const int tid;
};

}  // namespace cub
