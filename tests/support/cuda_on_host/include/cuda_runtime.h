// See cuda_runtime_api.h: what a compiler of CUDA adds to it is in ops/cuda/launch.cuh.
#pragma once

#include <cuda_runtime_api.h>
