// The temporary files of this process that are there at the moment, for a process that a signal ends.
//
// Decides how they are noted: without a lock and without memory, so that whoever ends the process waits for nobody.
// Invariant: a temporary that is noted is removed by its writer or by remove_temporaries(). Beyond kMostTemporaries at
// a time none is noted.
#pragma once

#include <string>

namespace tj::support {

inline constexpr int kMostTemporaries = 64;

/// The note of one temporary, from before the file is made. Any thread.
class TemporaryNote {
 public:
  TemporaryNote() = default;  // of none
  /// directory: open, and stays so. The name is short, as those of temporaries are.
  TemporaryNote(int directory, const std::string& name) noexcept;
  ~TemporaryNote() { forget(); }
  TemporaryNote(TemporaryNote&& other) noexcept : slot_(other.slot_) { other.slot_ = kNone; }
  TemporaryNote& operator=(TemporaryNote&& other) noexcept;

  /// No file may be made any more: the process is ending.
  bool refused() const noexcept { return slot_ == kRefused; }
  /// For when the file is there: until then, remove_temporaries() waits for it, a second at most.
  void made() noexcept;
  /// For just before it gets its name, or one of several does: remove_temporaries() waits as before.
  void publishing() noexcept;
  /// For when it is gone, or was never there.
  void forget() noexcept;

 private:
  static constexpr int kNone = -1, kRefused = -2;
  int slot_ = kNone;
};

/// Removes those of this process, not those of a parent that has forked it. From then on none is made. Another thread
/// that writes one fails as soon as it commits.
void remove_temporaries() noexcept;

}  // namespace tj::support
