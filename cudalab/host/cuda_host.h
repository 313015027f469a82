// Runs CUDA C++ device code on the CPU. The compiler includes this file before the user's `.cu`, which stays
// unmodified. It is for checking a kernel, never for timing it.
//
//   CUDALAB_FIBERS=0  flat: a block is a plain loop over its threads. Barriers and warp operations do not
//                     exist here, so a wrong choice of mode is a compile error, not a wrong answer.
//   CUDALAB_FIBERS=1  every CUDA thread has a stack of its own and can wait for the others.
//   CUDALAB_SANITIZE=1  compiled with the address sanitizer and checks for undefined behaviour.
//   CUDALAB_RACES=1  compiled with calls before each access to memory, to find races on shared memory (races.h).
//
// Not modelled, and refused by name (source.py): textures, surfaces, inline PTX, tensor cores, asynchronous
// copies, dynamic parallelism, device-wide algorithms of libraries. Not detected: a thread that
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
#include "intrinsics.h"
#include "integers.h"
#include "simd_intrinsics.h"
#include <assert.h>
#include "undefined.h"
#include "narrow_float.h"
#include "half.h"
#include "fp8.h"
#include "atomics.h"
#include "order.h"
#include "sanitize.h"
#if CUDALAB_FIBERS
#include "stack_switch.h"
#include "stacks.h"
#include "shared_memory.h"
#include "fibers.h"
#include "gang.h"
#include "warp.h"
#include "cluster.h"
#else
#include "flat.h"
#endif
#include "launch.h"
