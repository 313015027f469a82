// Runs CUDA C++ device code on the CPU. The compiler includes this file before the user's `.cu`, which stays
// unmodified. It is for checking a kernel, never for timing it.
//
//   CUDALAB_FIBERS=0  flat: a block is a plain loop over its threads. Barriers and warp operations do not
//                     exist here, so a wrong choice of mode is a compile error, not a wrong answer.
//   CUDALAB_FIBERS=1  every CUDA thread has a stack of its own and can wait for the others.
//   CUDALAB_SANITIZE=1  compiled with the address sanitizer and checks for undefined behaviour.
//   CUDALAB_RACES=1  compiled with calls before each access to memory, to find races (races.h, global_races.h).
//
//   CUDALAB_VOLATILE=1  compiled with calls before each access to volatile memory (volatile.h).
//
// Not modelled, and refused by name (source.py): textures, surfaces, inline PTX, dynamic parallelism, device-wide
// algorithms of libraries. A thread that looks at memory again and again lets others run (crowd.h), if it does so by
// volatile, an atomic, a fence or a load past L1: a plain `while (flag == 0);` never ends, as on a GPU.
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

#ifndef CUDALAB_VOLATILE
#define CUDALAB_VOLATILE 0
#endif

#include "qualifiers.h"
#include "vector_types.h"
#include "failure.h"
#include "races.h"
#include "global_races.h"
#include "intrinsics.h"
#include "integers.h"
#include "simd_intrinsics.h"
#include <assert.h>
#include "undefined.h"
#include "narrow_float.h"
#include "half.h"
#include "fp8.h"
#include "order.h"
#include "sanitize.h"
#include "crowd.h"
#if CUDALAB_FIBERS
#include "stack_switch.h"
#include "stacks.h"
#include "shared_memory.h"
#include "copy_queue.h"
#include "fibers.h"
#include "block_barriers.h"
#include "gang.h"
#include "warp.h"
#include "cluster.h"
#else
#include "flat.h"
#endif
#include "atomics.h"
#if CUDALAB_FIBERS
#include "volatile.h"
#endif
#include "launch.h"
