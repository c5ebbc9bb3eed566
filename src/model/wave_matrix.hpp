// The matrix instruction of a wave, as AMD's archs have it: 16 rows, 16 columns, 16 of K, all out of registers.
//
// Decides which element each register of each lane holds. Invariant: all lanes ask for the same, and where two hold the
// same element they hold it alike, else tj::Error(model_fault). Subnormal numbers count as 0 where the arch's
// instruction does so. Source: AMD RDNA 3 and 4 ISA reference guides, "WMMA instructions"; AMD CDNA 2 and 3 ISA
// reference guides, "Matrix arithmetic instructions".
#pragma once

#include "model/thread.hpp"

namespace tj::model {

/// Returns once all lanes of the thread's wave have asked.
void multiply_wave(Thread& thread, const tj_model_wave_mma& request);

}  // namespace tj::model
