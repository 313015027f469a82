#pragma once
#include "cuda_fp16.h"
// The rest is in half.h, which is included before the first line of a .cu.
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
