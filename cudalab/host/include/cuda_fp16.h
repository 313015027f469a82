#pragma once
// The rest is in half.h, which is included before the first line of a .cu.
using half = __half;
using half2 = __half2;
