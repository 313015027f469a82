// A kernel of known length for `cudalab selftest`, which knows itself how long it took.

__device__ long long nanoseconds() {
#ifdef __CUDACC_VER_MAJOR__
    long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
#else  // cudalab.host, for the CPU, where clock64() counts nanoseconds
    return clock64();
#endif
}

// One thread waits for `cycles` of its SM's clock. Adds to `spent`: cycles, nanoseconds of the GPU's own timer, and 1.
extern "C" __global__ void spin(long long cycles, long long* spent) {
    const long long began = nanoseconds(), start = clock64();
    long long now = start;
    while (now - start < cycles) now = clock64();
    spent[0] += now - start;
    spent[1] += nanoseconds() - began;
    spent[2] += 1;
}
