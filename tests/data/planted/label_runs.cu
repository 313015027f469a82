#include <cooperative_groups.h>
// Each node of a line gets the least number of those that it is connected with: node i with i + 1 where link[i] is not 0.
// The grid repeats until no block changes anything.
__global__ void label_runs(const int* link, int* y, int* changed, int n) {
    auto grid = cooperative_groups::this_grid();
    for (int i = grid.thread_rank(); i < n; i += grid.size()) y[i] = i;
    do {
        grid.sync();
        if (grid.thread_rank() == 0) *changed = 0;
        grid.sync();
        for (int i = grid.thread_rank(); i < n - 1; i += grid.size()) {
            if (!link[i]) continue;
            const int a = *(volatile int*)(y + i), b = *(volatile int*)(y + i + 1);
            if (a < b) { atomicMin(y + i + 1, a); *(volatile int*)changed = 1; }
            if (b < a) { atomicMin(y + i, b); *(volatile int*)changed = 1; }
        }
        grid.sync();
    } while (*changed);
}
