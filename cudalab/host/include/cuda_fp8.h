#pragma once
#include "cuda_fp16.h"
#include "cuda_bf16.h"
// The rest is in fp8.h, which is included before the first line of a .cu.
