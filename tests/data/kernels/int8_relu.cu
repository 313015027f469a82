// y = max(x, 0) in int8, four at a time where they are aligned.
__global__ void int8_relu(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n) {
    const long long i = (blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x) * 4;
    const bool aligned = reinterpret_cast<size_t>(x) % 4 == 0 && reinterpret_cast<size_t>(y) % 4 == 0;
    if (aligned && i + 3 < n)
        *reinterpret_cast<unsigned*>(y + i) = __vmaxs4(*reinterpret_cast<const unsigned*>(x + i), 0);
    else
        for (long long k = i; k < n && k < i + 4; ++k) y[k] = x[k] > 0 ? x[k] : scalar_t(0);
}
