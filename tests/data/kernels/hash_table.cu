// Linear-probing hash table (after nosferalatu/SimpleGPUHashTable)
#include <stdint.h>
struct KeyValue { uint32_t key; uint32_t value; };
const uint32_t kEmpty = 0xffffffff;

__device__ uint32_t hash(uint32_t k, uint32_t capacity) {
    k ^= k >> 16; k *= 0x85ebca6b; k ^= k >> 13; k *= 0xc2b2ae35; k ^= k >> 16;
    return k & (capacity - 1);
}

__global__ void gpu_hashtable_insert(uint32_t* table_keys, uint32_t* table_values, const uint32_t* keys, const uint32_t* vals, unsigned int numkvs, uint32_t capacity) {
    unsigned int threadid = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadid < numkvs) {
        uint32_t key = keys[threadid];
        uint32_t value = vals[threadid];
        uint32_t slot = hash(key, capacity);
        while (true) {
            uint32_t prev = atomicCAS(&table_keys[slot], kEmpty, key);
            if (prev == kEmpty || prev == key) {
                table_values[slot] = value;
                return;
            }
            slot = (slot + 1) & (capacity - 1);
        }
    }
}

__global__ void gpu_hashtable_lookup(const uint32_t* table_keys, const uint32_t* table_values, const uint32_t* queries, uint32_t* found, unsigned int n, uint32_t capacity) {
    unsigned int threadid = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadid < n) {
        uint32_t key = queries[threadid];
        uint32_t slot = hash(key, capacity);
        while (true) {
            if (table_keys[slot] == key) { found[threadid] = table_values[slot]; return; }
            if (table_keys[slot] == kEmpty) { found[threadid] = kEmpty; return; }
            slot = (slot + 1) & (capacity - 1);
        }
    }
}
