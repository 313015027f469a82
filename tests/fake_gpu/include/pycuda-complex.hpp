// Stands before PyCUDA's header of this name, which every ElementwiseKernel includes and which calls an overload that
// CUDA has and C's library lacks. A template, so that a function of this type, once cudalab.host has one, is preferred.
#pragma once
#include <math.h>

extern "C++" template <class T> void sincos(T x, T* sine, T* cosine) {
    *sine = ::sin(x);
    *cosine = ::cos(x);
}

#include_next <pycuda-complex.hpp>
