#pragma once
#include "../block/block_exchange.cuh"
