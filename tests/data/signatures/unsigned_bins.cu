__global__ void hist(const unsigned* keys, unsigned int* bins, long unsigned* total, unsigned n) {}
