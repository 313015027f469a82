// One entry a function of two words: y = f(a, b); those of three words take c as well.
#define TWO(f) __global__ void t##f(unsigned* y, const unsigned* a, const unsigned* b, int n) { \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;                                        \
    if (i < n) y[i] = f(a[i], b[i]);                                                            \
}
#define ONE(f) __global__ void t##f(unsigned* y, const unsigned* a, const unsigned* b, int n) { \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;                                        \
    if (i < n) y[i] = f(a[i]);                                                                  \
}
#define BOTH(of, f) of(f##2) of(f##4)
BOTH(ONE, __vabs) BOTH(ONE, __vabsss) BOTH(ONE, __vneg) BOTH(ONE, __vnegss)
BOTH(TWO, __vadd) BOTH(TWO, __vaddss) BOTH(TWO, __vaddus) BOTH(TWO, __vsub) BOTH(TWO, __vsubss) BOTH(TWO, __vsubus)
BOTH(TWO, __vabsdiffs) BOTH(TWO, __vabsdiffu) BOTH(TWO, __vavgs) BOTH(TWO, __vavgu) BOTH(TWO, __vhaddu)
BOTH(TWO, __vmaxs) BOTH(TWO, __vmaxu) BOTH(TWO, __vmins) BOTH(TWO, __vminu) BOTH(TWO, __vsads) BOTH(TWO, __vsadu)
BOTH(TWO, __vcmpeq) BOTH(TWO, __vcmpne) BOTH(TWO, __vcmpges) BOTH(TWO, __vcmpgeu) BOTH(TWO, __vcmpgts)
BOTH(TWO, __vcmpgtu) BOTH(TWO, __vcmples) BOTH(TWO, __vcmpleu) BOTH(TWO, __vcmplts) BOTH(TWO, __vcmpltu)
BOTH(TWO, __vseteq) BOTH(TWO, __vsetne) BOTH(TWO, __vsetges) BOTH(TWO, __vsetgeu) BOTH(TWO, __vsetgts)
BOTH(TWO, __vsetgtu) BOTH(TWO, __vsetles) BOTH(TWO, __vsetleu) BOTH(TWO, __vsetlts) BOTH(TWO, __vsetltu)

__global__ void scalars(unsigned* y, const unsigned* a, const unsigned* b, const unsigned* c, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned p = a[i], q = b[i], r = c[i];
    bool high, low;
    unsigned* row = y + 14 * i;
    row[0] = __dp2a_lo(int(p), int(q), int(r)), row[1] = __dp2a_hi(int(p), int(q), int(r));
    row[2] = __dp2a_lo(p, q, r), row[3] = __dp2a_hi(p, q, r);
    row[4] = __dp4a(int(p), int(q), int(r)), row[5] = __dp4a(p, q, r);
    row[6] = __urhadd(p, q), row[7] = __rhadd(int(p), int(q));
    row[8] = __viaddmax_s16x2_relu(p, q, r), row[9] = __vimin3_u16x2(p, q, r);
    row[10] = __viaddmin_s32(int(p), int(q), int(r));
    row[11] = __vibmax_s16x2(p, q, &high, &low), row[12] = high * 2 + low;
    row[13] = __fns(p, q % 32, int(r % 9) - 4);
}

__global__ void vectors(float2* y2, float4* y4, unsigned short* word) {
    atomicAdd(y2, make_float2(1, 2));
    atomicAdd_block(y4, make_float4(1, 2, 3, 4));
    unsigned short old = *word, seen;
    do seen = old;
    while ((old = atomicCAS(word, seen, static_cast<unsigned short>(seen + 3))) != seen);
    atomicCAS_system(word, static_cast<unsigned short>(1), static_cast<unsigned short>(2));
}
