template <typename Tp, typename Tg>
__global__ void adamw(Tp* p, float* master, Tg* g, float eps) {}
