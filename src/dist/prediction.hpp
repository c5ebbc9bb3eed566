// Times of a rank's ways through attention over a split sequence, from the bytes that travel and the products that are
// made.
//
// Decides when keys of other ranks are waited for at once, and when the rank's own rows are attended meanwhile. Rates
// are planning numbers of one H200 and its NVLink (README.md). Invariant: a pure function of its arguments, as senders
// must come to a receiver's decision.
#pragma once

#include <cstdint>

namespace tj::dist {

/// A rank's part of a call.
struct Load {
  double flops = 0, own_flops = 0;  ///< of all products, and of those over the rank's own rows
  double tile_flops = 0;            ///< of a tile over the rank's own rows: a launch ends with half of one idle
  double remote_bytes = 0;          ///< that come from other ranks
  double own_bytes = 0;             ///< of its own keys and values
  double output_values = 0;         ///< of the rank's rows
};

/// Seconds from the first copy to the last result. whole: all keys are brought together, then each row is attended in
/// one call. own_first: the rank's own rows are attended while the others' travel, and two f32 results are merged.
struct Predicted {
  double whole_s = 0, own_first_s = 0;
};
Predicted predict(const Load& load);

}  // namespace tj::dist
