#include "cuda/barrier"
