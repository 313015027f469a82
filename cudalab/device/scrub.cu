// Overwrites the shared memory of the multiprocessor that it runs on: `words` of it, one block a multiprocessor. What
// a kernel left there would else be found by the next one. The comparison keeps the stores from being optimised away.
extern "C" __global__ void scrub(unsigned word, int words, unsigned* sink) {
    extern __shared__ unsigned shared[];
    for (int i = threadIdx.x; i < words; i += blockDim.x) shared[i] = word + i;
    __syncthreads();
    const int mine = (threadIdx.x + word) % words;
    if (shared[mine] != word + mine) *sink = word;
}
