// Primitives of gfx90a (CDNA 2) on the CPU: the names, signatures and meanings of the device's file, for the CPU model.
//
// Decides nothing: the library's model multiplies, and takes subnormal elements and sums as 0, as gfx90a does. Source:
// ROCm documentation, MIOpen, "MI200 matrix fused multiply-add (MFMA) behavior specifics". Invariant: a unit that
// compiles for the device compiles here.
#pragma once

#define TJ_MATRIX_FLUSHES_SUBNORMALS 1
#include "arch/gfx9.cuh"
