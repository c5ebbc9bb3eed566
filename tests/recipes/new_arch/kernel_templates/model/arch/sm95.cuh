// Primitives of sm_95z on the CPU: those of sm_90a.
#pragma once

#include "arch/sm90.cuh"
