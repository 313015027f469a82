// CUDA's complex numbers in C, with the formulas of its <cuComplex.h>.
#pragma once
typedef cuFloatComplex cuComplex;

inline float cuCrealf(cuFloatComplex x) { return x.x; }
inline float cuCimagf(cuFloatComplex x) { return x.y; }
inline cuFloatComplex make_cuFloatComplex(float x, float y) { return {x, y}; }
inline cuFloatComplex cuConjf(cuFloatComplex x) { return {x.x, -x.y}; }
inline cuFloatComplex cuCaddf(cuFloatComplex x, cuFloatComplex y) { return {x.x + y.x, x.y + y.y}; }
inline cuFloatComplex cuCsubf(cuFloatComplex x, cuFloatComplex y) { return {x.x - y.x, x.y - y.y}; }
inline cuFloatComplex cuCmulf(cuFloatComplex x, cuFloatComplex y) { return {x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x}; }
inline cuFloatComplex cuCfmaf(cuFloatComplex x, cuFloatComplex y, cuFloatComplex d) {
    const float real = x.x * y.x + d.x, imaginary = x.x * y.y + d.y;
    return {-(x.y * y.y) + real, x.y * y.x + imaginary};
}
// Scaled, so that no square overflows.
inline cuFloatComplex cuCdivf(cuFloatComplex x, cuFloatComplex y) {
    float scale = float(1) / (fabsf(y.x) + fabsf(y.y));
    const float a = x.x * scale, b = x.y * scale, c = y.x * scale, d = y.y * scale;
    scale = float(1) / (c * c + d * d);
    return {(a * c + b * d) * scale, (b * c - a * d) * scale};
}
inline float cuCabsf(cuFloatComplex x) {
    const float a = fabsf(x.x), b = fabsf(x.y), large = a > b ? a : b, small = a > b ? b : a, ratio = small / large;
    if (large == 0 || large > FLT_MAX || small > FLT_MAX) return large + small;
    return large * sqrtf(float(1) + ratio * ratio);
}

inline double cuCreal(cuDoubleComplex x) { return x.x; }
inline double cuCimag(cuDoubleComplex x) { return x.y; }
inline cuDoubleComplex make_cuDoubleComplex(double x, double y) { return {x, y}; }
inline cuDoubleComplex cuConj(cuDoubleComplex x) { return {x.x, -x.y}; }
inline cuDoubleComplex cuCadd(cuDoubleComplex x, cuDoubleComplex y) { return {x.x + y.x, x.y + y.y}; }
inline cuDoubleComplex cuCsub(cuDoubleComplex x, cuDoubleComplex y) { return {x.x - y.x, x.y - y.y}; }
inline cuDoubleComplex cuCmul(cuDoubleComplex x, cuDoubleComplex y) { return {x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x}; }
inline cuDoubleComplex cuCfma(cuDoubleComplex x, cuDoubleComplex y, cuDoubleComplex d) {
    const double real = x.x * y.x + d.x, imaginary = x.x * y.y + d.y;
    return {-(x.y * y.y) + real, x.y * y.x + imaginary};
}
// Scaled, so that no square overflows.
inline cuDoubleComplex cuCdiv(cuDoubleComplex x, cuDoubleComplex y) {
    double scale = double(1) / (fabs(y.x) + fabs(y.y));
    const double a = x.x * scale, b = x.y * scale, c = y.x * scale, d = y.y * scale;
    scale = double(1) / (c * c + d * d);
    return {(a * c + b * d) * scale, (b * c - a * d) * scale};
}
inline double cuCabs(cuDoubleComplex x) {
    const double a = fabs(x.x), b = fabs(x.y), large = a > b ? a : b, small = a > b ? b : a, ratio = small / large;
    if (large == 0 || large > DBL_MAX || small > DBL_MAX) return large + small;
    return large * sqrt(double(1) + ratio * ratio);
}

inline cuComplex make_cuComplex(float x, float y) { return {x, y}; }
inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex x) { return {float(x.x), float(x.y)}; }
inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex x) { return {x.x, x.y}; }
