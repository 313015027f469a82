// Run CUDA C++ device code on the CPU. The compiler is told to include this file before the user's `.cu`,
// which stays unmodified. It is for checking a kernel, never for timing it.
//
//   CUDALAB_FIBERS=0  flat: a block is a plain loop over its threads. Barriers and warp operations do not
//                     exist here, so a wrong choice of mode is a compile error and not a wrong answer.
//   CUDALAB_FIBERS=1  every CUDA thread has a stack of its own and can wait for the others.
//
// Not modelled: textures, surfaces, inline PTX, tensor cores, cooperative groups, clusters, asynchronous
// copies, dynamic parallelism, spin-waiting for another thread (it would never be scheduled).
#pragma once

#ifndef CUDALAB_FIBERS
#define CUDALAB_FIBERS 1
#endif

#include "qualifiers.h"
#include "vector_types.h"
#include "failure.h"
#include "intrinsics.h"
#include "alignment.h"
#include "narrow_float.h"
#include "half.h"
#include "atomics.h"
#if CUDALAB_FIBERS
#include "stack_switch.h"
#include "fibers.h"
#include "warp.h"
#else
#include "flat.h"
#endif
#include "launch.h"
