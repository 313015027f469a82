// Runs CUDA C++ device code on the CPU. The compiler includes this file before the user's `.cu`, which stays
// unmodified. It is for checking a kernel, never for timing it.
//
//   CUDALAB_FIBERS=0  flat: a block is a plain loop over its threads. Barriers and warp operations do not
//                     exist here, so a wrong choice of mode is a compile error, not a wrong answer.
//   CUDALAB_FIBERS=1  every CUDA thread has a stack of its own and can wait for the others.
//   CUDALAB_SANITIZE=1  compiled with the address sanitizer and checks for undefined behaviour.
//   CUDALAB_RACES=1  compiled with calls before each access to memory, to find races (races.h, global_races.h).
//   CUDALAB_VOLATILE=1  compiled with calls before each access to volatile memory (volatile.h).
//
//   CUDALAB_CONTENDS=1  has atomic operations: in a shuffled order some blocks live at the same time (gang.h). Only the
//                       kernel is compiled with it.
//   CUDALAB_RUNTIME=1  the runtime, which all kernels of a mode share: it runs their blocks and threads, and has most of
//                      the functions that Python calls. compiler.py compiles it once, and links it to each kernel.
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

#ifndef CUDALAB_CONTENDS
#define CUDALAB_CONTENDS 0
#endif

#ifndef CUDALAB_VOLATILE
#define CUDALAB_VOLATILE 0
#endif

#ifndef CUDALAB_RUNTIME
#define CUDALAB_RUNTIME 0
#endif

#include "qualifiers.h"
#include "vector_types.h"
#include "failure.h"
#include "races.h"
#include "flags.h"
#include "known_writes.h"
#include "global_races.h"
#include "intrinsics.h"
#include "integers.h"
#include "simd_intrinsics.h"
#include <assert.h>
#include "undefined.h"
#include "narrow_float.h"
#include "half.h"
#include "rounding.h"
#include "fp8.h"
#if CUDALAB_FIBERS || CUDALAB_RUNTIME
#include "order.h"
#include "sanitize.h"
#include "crowd.h"
#endif
#if CUDALAB_FIBERS
#include "stack_switch.h"
#include "stacks.h"
#include "shared_memory.h"
#include "fibers.h"
#include "block_barriers.h"
#include "gang.h"
#include "warp.h"
#include "cluster.h"
#else
#include "flat.h"
#endif
#include "atomics.h"
#include "entry.h"
#if CUDALAB_RUNTIME
#if CUDALAB_FIBERS
#include "copy_queue.h"
#include "scheduler.h"
#include "warp_meeting.h"
#include "volatile.h"
#else
#include "flat_runner.h"
#endif
#include "launch.h"
#endif
