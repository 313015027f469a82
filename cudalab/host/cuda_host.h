// Runs CUDA C++ device code on the CPU. The compiler includes this file before the user's `.cu`, which stays
// unmodified. It is for checking a kernel, never for timing it.
//
//   CUDALAB_FIBERS=0  flat: a block is a plain loop over its threads. Barriers and warp operations do not
//                     exist here, so a wrong choice of mode is a compile error, not a wrong answer.
//   CUDALAB_FIBERS=1  every CUDA thread has a stack of its own and can wait for the others.
//   CUDALAB_SANITIZE=1  compiled with the address sanitizer and checks for undefined behaviour.
//   CUDALAB_RACES=1  compiled with calls before each access to memory, to find races (races.h, global_races.h).
//
// Not modelled, and refused by name (source.py): textures, surfaces, inline PTX, tensor cores, clusters, asynchronous
// copies, grid-wide barriers, dynamic parallelism, libraries such as CUB and cuda::std. Not detected: a thread that
// spins until another thread acts never ends, since the other one never runs.
#pragma once

#ifndef CUDALAB_FIBERS
#define CUDALAB_FIBERS 1
#endif
#ifndef CUDALAB_SANITIZE
#define CUDALAB_SANITIZE 0
#endif

#ifndef CUDALAB_RACES
#define CUDALAB_RACES 0
#endif

#include "qualifiers.h"
#include "vector_types.h"
#include "failure.h"
#include "races.h"
#include "global_races.h"
#include "intrinsics.h"
#include "integers.h"
#include <assert.h>
#include "undefined.h"
#include "narrow_float.h"
#include "half.h"
#include "atomics.h"
#include "order.h"
#include "sanitize.h"
#if CUDALAB_FIBERS
#include "stack_switch.h"
#include "stacks.h"
#include "shared_memory.h"
#include "fibers.h"
#include "warp.h"
#else
#include "flat.h"
#endif
#include "launch.h"
