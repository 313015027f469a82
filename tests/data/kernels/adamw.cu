// AdamW in place, after llm.c (dev/cuda/adamw.cu).
#include <cuda_bf16.h>

__device__ inline float lerp(float start, float end, float weight) { return fma(weight, end, fma(-weight, start, start)); }

__global__ void adamw_kernel(scalar_t* params_memory, const scalar_t* grads_memory, float* m_memory, float* v_memory,
                             size_t num_parameters, float learning_rate, float beta1, float beta2,
                             float beta1_correction, float beta2_correction, float eps, float weight_decay) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num_parameters) return;  // guard
    float grad = grads_memory[i];
    float m = m_memory[i];
    float v = v_memory[i];
    // update the first moment (momentum)
    m = lerp(grad, m, beta1);
    m_memory[i] = m;
    // update the second moment (RMSprop)
    v = lerp(grad * grad, v, beta2);
    v_memory[i] = v;
    m /= beta1_correction;  // m_hat
    v /= beta2_correction;  // v_hat
    float param = params_memory[i];
    params_memory[i] = (scalar_t)(param - learning_rate * (m / (sqrtf(v) + eps) + weight_decay * param));
}
