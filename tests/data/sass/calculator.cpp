// Reads threads, registers and shared memory of launches; prints the blocks on an SM by NVIDIA's calculator.
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cuda_occupancy.h>
int main(int, char** v) {
    cudaOccDeviceProp p;
    p.computeMajor = atoi(v[1]), p.computeMinor = atoi(v[2]), p.maxThreadsPerMultiprocessor = 32 * atoi(v[3]);
    p.maxThreadsPerBlock = 1024, p.regsPerBlock = p.regsPerMultiprocessor = 65536, p.warpSize = 32, p.numSms = 1;
    p.sharedMemPerBlock = 49152, p.sharedMemPerMultiprocessor = atoi(v[4]), p.sharedMemPerBlockOptin = atoi(v[5]);
    p.reservedSharedMemPerBlock = p.computeMajor >= 8 ? 1024 : 0;
    int threads, registers, shared;
    while (scanf("%d %d %d", &threads, &registers, &shared) == 3) {
        cudaOccFuncAttributes a;
        a.maxThreadsPerBlock = 1024, a.numRegs = registers, a.sharedSizeBytes = shared, a.numBlockBarriers = 1;
        a.partitionedGCConfig = PARTITIONED_GC_OFF, a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        a.maxDynamicSharedSizeBytes = p.sharedMemPerBlockOptin;
        cudaOccDeviceState s;
        s.cacheConfig = CACHE_PREFER_SHARED, s.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
        cudaOccResult r;
        if (cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &a, &s, threads, 0)) return 1;
        printf("%d\n", r.activeBlocksPerMultiprocessor);
    }
}
