// Primitives of sm_95z: those of sm_90a, all of which it has.
#pragma once

#include "arch/sm90.cuh"
