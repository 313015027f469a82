template <class T> __device__ void f(T* x) {}
