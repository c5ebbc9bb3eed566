// Numbers that a user's texts read.
//
// Decides how a text finds them. Invariant: nothing outside of the buffer is read, whatever place a text asks for.
#pragma once

namespace tj::ops {

/// The buffer of a call's texts: numbers of 32 bits, by their place. A place outside of it counts as the last one.
class TextParams {
 public:
  /// last: the last place that there is.
  TJ_DEVICE TextParams(const unsigned* words, unsigned last) : words_(words), last_(last) {}
  TJ_DEVICE int i32(int place) const { return static_cast<int>(dev::load_global_u32(words_ + at(place))); }
  TJ_DEVICE float f32(int place) const { return dev::load_global(reinterpret_cast<const float*>(words_ + at(place))); }

 private:
  TJ_DEVICE unsigned at(int place) const {
    const auto from_begin = static_cast<unsigned>(place);
    return from_begin < last_ ? from_begin : last_;
  }
  const unsigned* words_;
  unsigned last_;
};

}  // namespace tj::ops
