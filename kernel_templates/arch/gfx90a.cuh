// Primitives of gfx90a (CDNA 2): those of gfx9. The model has the same names.
//
// Decides nothing more. Its matrix instructions take subnormal elements as 0, other than those of gfx942 and gfx950.
// The model's file of the same name does so too. Source: ROCm documentation, MIOpen, "MI200 matrix fused multiply-add
// (MFMA) behavior specifics". Invariant: that of gfx9.cuh.
#pragma once

#include "arch/gfx9.cuh"
