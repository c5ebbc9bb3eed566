// A ladder of kernels as a table, JSON and Markdown.
//
// Decides columns, units and keys, and what is said of sizes and tiles. Measures nothing. Invariant: the three say the
// same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/schedule_changes.hpp"

namespace tj::samples {

struct Rung {
  std::string name, kernel;  ///< "v4", what KernelReport::name says
  std::int64_t m = 0, n = 0, k = 0;
  double ms = 0, error = 0, limit = 0;
  std::int64_t rows_compared = 0;
  bool guarded = true;  ///< nothing was written beside the result
  ScheduleFacts schedule;
  double predicted_ms = 0;           ///< by the schedule, on the device that its arch is described with; 0: unknown
  std::vector<std::string> changes;  ///< since the rung before
  std::string adds;                  ///< what the rung adds, in a sentence or two
  /// Lines of the schedule and of the kernel's source that the rung before lacks ("+ ..."), or has alone ("- ...").
  std::vector<std::string> schedule_lines, unit_lines;

  double tflops() const { return tflops_in(ms); }
  double predicted_tflops() const { return tflops_in(predicted_ms); }
  double tflops_in(double time_ms) const {
    return time_ms > 0 ? 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / time_ms * 1e-9
                       : 0;
  }
  bool right() const { return error <= limit && guarded; }  ///< false for NaN
};

struct Ladder {
  std::string target, device, dtype;
  bool on_model = false;      ///< times are the model's
  int settle_ms = 0;          ///< that a rung ran for before each time
  int rounds = 1, calls = 1;  ///< the time of a rung is the median over rounds of the mean over calls
  std::vector<Rung> rungs;

  bool right() const;
  /// How many times as fast as the rung before; 0 where there is none of the same size.
  double gain(std::size_t rung) const;
  double predicted_gain(std::size_t rung) const;  ///< likewise, by the schedules
  /// why_slower() of the rung; empty on the model, whose times say nothing.
  std::string why_slower(std::size_t rung) const;
  std::string timing_text() const;
};

/// Changes from `before` to `now`: sizes, the tile in the kernel's name, then the schedules' words.
std::vector<std::string> rung_changes(const Rung& before, const Rung& now);

std::string ladder_text(const Ladder& ladder);
/// A paragraph for the rung: what it adds, then lines that changed, at most `lines` of the schedule and of the source.
std::string rung_paragraph(const Rung& rung, std::size_t lines);
/// With a paragraph for each rung whose `adds` is given.
std::string ladder_markdown(const Ladder& ladder, std::size_t lines);
std::string ladder_json(const Ladder& ladder);

}  // namespace tj::samples
