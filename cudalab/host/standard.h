// cuda::std is the C++ standard library. What differs (atomics, barriers) is declared in it and hides the standard's.
#pragma once

namespace cuda {
namespace std {
using namespace ::std;
}
}  // namespace cuda
