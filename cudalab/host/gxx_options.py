"""The options that a `.cu` is compiled with for the CPU."""

from __future__ import annotations

from cudalab.host.system_calls import LINKED

FLAGS = (
    "-O2",
    "-fPIC",
    "-pthread",
    "-w",  # nvcc, not g++, is to warn about the user's code
    "-fvisibility=hidden",
    "-fno-math-errno",
    # nvcc contracts a*b+c to fma by default. Where it does so cannot be predicted here, and whether g++
    # can depends on the machine. `off` gives the same digits everywhere, and kernels are judged with a
    # tolerance. fmaf() and __fmaf_rn() are fused, as written.
    "-ffp-contract=off",
    "-fno-strict-aliasing",  # kernels reinterpret_cast float* to float4*
    "-fwrapv",  # nvcc's integers wrap around; else g++ may take (size_t)i * n for the same i * n that overflows
    "-fsanitize=alignment",  # undefined.h replaces libubsan, which is not linked; see below
    "-fno-sanitize-recover=all",  # its functions do not return
    "-U_FORTIFY_SOURCE",  # its longjmp check does not know our stacks
    # No -march=native: the cache may be shared by machines with different processors.
)

LINK = (
    "-shared",
    "-Wl,-z,defs",  # an undefined name is an error now, not in dlopen
    "-Wl,-z,nodynamic-undefined-weak",  # a weak one is null: dlopen would find Python's own functions in this process
    "-Wl,-Bsymbolic",  # two modules may use one name for different __constant__ variables
    *LINKED,
)

# By version 5 addr2line of binutils 2.40 calls the source <stdin> if it is the first file that has code.
DWARF = "-gdwarf-4"

# The usual libraries, listed here because with -fsanitize the compiler would add libubsan to its own list.
LIBRARIES = ("-nodefaultlibs", "-Wl,--as-needed", "-lstdc++", "-lm", "-lpthread", "-lgcc_s", "-lgcc", "-lc")

# Checks that g++ and clang++ both have; the messages are in undefined.h.
SANITIZE = (
    "-fno-omit-frame-pointer",
    "-fno-wrapv",  # an overflow is to be seen
    "-O0",  # an optimiser may remove the wrong access
    "-fsanitize=address,bounds,bool,enum,integer-divide-by-zero,null,return,shift,signed-integer-overflow",
    "-fsanitize=unreachable,vla-bound",
)
SANITIZE_CLANG = ("-fno-sanitize=local-bounds",)  # would end the process without a message

# The compiler calls functions before accesses to memory: for volatile ones, see volatile.h.
WATCHED = ("-fsanitize=thread",)
_WATCHED_PARAMETERS = ("tsan-instrument-func-entry-exit=0", "tsan-distinguish-volatile=1")
WATCHED_CLANG = tuple(word for given in _WATCHED_PARAMETERS for word in ("-mllvm", f"-{given}"))
WATCHED_GCC = tuple(word for given in _WATCHED_PARAMETERS for word in ("--param", given))

# To find races, see races.h. A read whose value is used later stays where it is written, such as before a guard.
RACES = ("-O1", "-fno-tree-sink", "-fno-sanitize=alignment", "-fsanitize=thread", *WATCHED_GCC)
