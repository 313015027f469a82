// A row that needs one number made of all its elements before its first result: the sum of the squares of a norm, a
// largest magnitude. The row lies in the registers of its team (team.cuh) and is read once; what a long row has beyond
// that is read twice.
//
// A Row says what is read, reduced and written:
//     arrays         how many arrays are read
//     Value, joined  what is made of the elements, which is 0 for none, and of two of these
//     first, again   fill v with packs number at, at + 1, ... of this thread as float32, of one array after the other;
//                    zeros beyond the row. `first` once for each pack, `again` for those that did not stay in registers
//     of             the Value of n elements
//     result         what the Value of the whole row gives, for every thread
//     write          writes a pack; the elements of the next array are `next` further in v
#pragma once
#include "row.cuh"
#include "team.cuh"

// `whole`: each thread has at most `packs` packs of the row.
template <int width, int packs, bool whole, class Team, class Row>
__device__ __forceinline__ void reduced_row(const Row& row, int cols, typename Row::Value* table) {
    constexpr int n = packs * width;
    float v[Row::arrays * n];
    typename Row::Value mine = 0;
    int at = 0;  // the first pack that stays in registers
    if (!whole) {
        for (; (at + packs) * (int)blockDim.x * width < cols; at += packs) {
            row.template first<width, packs>(at, cols, v);
            mine = Row::joined(mine, row.template of<n>(v));
        }
    }
    row.template first<width, packs>(at, cols, v);
    mine = Row::joined(mine, row.template of<n>(v));
    const auto result = row.result(over_team<Team, Row::joined>(mine, table));
#pragma unroll
    for (int p = 0; p < packs; ++p) row.template write<width, n>(at + p, cols, v + p * width, result);
    if (!whole) {
        for (--at; at >= 0; --at) {  // backwards: what was read last is most likely still in cache
            row.template again<width>(at, cols, v);
            row.template write<width, width>(at, cols, v, result);
        }
    }
}

// A row of any length, or a block's columns of it. A thread keeps up to `held` elements of each array. `wide`: 16-byte
// accesses are allowed. `exists` is false for threads beyond the last row, which neither load nor store, but the warp's
// shuffles need their lanes.
template <int held, class Team, class Row>
__device__ __forceinline__ void any_reduced_row(const Row& row, int length, bool exists, bool wide,
                                                typename Row::Value* table) {
    const int cols = exists ? length : 0, turn = blockDim.x * WIDE;  // turn: columns of one pack a thread
    constexpr int most = held / WIDE;
    if (!wide) reduced_row<1, 4, false, Team>(row, cols, table);
    else if (length <= turn) reduced_row<WIDE, 1, true, Team>(row, cols, table);
    else if (length <= 2 * turn) reduced_row<WIDE, 2, true, Team>(row, cols, table);
    else if (length <= most * turn) reduced_row<WIDE, most, true, Team>(row, cols, table);
    else reduced_row<WIDE, 2, false, Team>(row, cols, table);
}
