#pragma once
#include "thread_operators.cuh"
