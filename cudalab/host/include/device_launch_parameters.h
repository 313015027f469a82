#pragma once  // all of it is in cuda_host.h, which is included before the first line of a .cu
