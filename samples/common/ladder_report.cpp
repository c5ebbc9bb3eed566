// See ladder_report.hpp.
#include "common/ladder_report.hpp"

#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "common/prediction.hpp"
#include "common/report_text.hpp"

namespace tj::samples {
namespace {

using Json = nlohmann::ordered_json;

std::string size_text(const Rung& rung) {
  return format("%lldx%lldx%lld", static_cast<long long>(rung.m), static_cast<long long>(rung.n),
                static_cast<long long>(rung.k));
}

std::string sentence(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

/// "128x256x64c2x1" of "gemm_f16_kk_128x256x64c2x1_v9": the first part that begins with a number; "" without one.
std::string tile_of(const std::string& kernel) {
  for (std::size_t begin = 0; begin < kernel.size(); begin = std::min(kernel.find('_', begin), kernel.size()) + 1) {
    const std::string part = kernel.substr(begin, kernel.find('_', begin) - begin);
    if (!part.empty() && part[0] >= '0' && part[0] <= '9') return part;
  }
  return {};
}

/// Every cell of a rung's row, as Markdown and the table show them.
std::vector<std::string> cells(const Ladder& ladder, std::size_t i) {
  const Rung& rung = ladder.rungs[i];
  const double gain = ladder.gain(i);
  const auto gain_text = [](double of) { return of > 0 ? format("%.2fx", of) : "-"; };
  std::string roles;
  for (const std::string& role : rung.schedule.roles) roles += (roles.empty() ? "" : ", ") + role;
  return {rung.name,
          size_text(rung),
          format("%.1f", rung.ms * 1e3),
          format("%.4g", rung.tflops()),
          rung.predicted_ms > 0 ? format("%.4g", rung.predicted_tflops()) : "-",
          gain_text(gain),
          gain_text(ladder.predicted_gain(i)),
          std::to_string(rung.schedule.ii),
          std::to_string(rung.schedule.stages),
          roles,
          rung.schedule.slots_text(),
          format("%s %.1e", rung.right() ? "ok" : "WRONG", rung.error),
          sentence(rung.changes)};
}

/// Some of the lines, and a word of the rest.
std::string some_lines(const char* of, const std::vector<std::string>& lines, std::size_t most) {
  if (lines.empty()) return {};
  std::string text = format("  %s, lines that change:\n", of);
  for (std::size_t i = 0; i < std::min(lines.size(), most); ++i) text += "    " + lines[i] + "\n";
  if (lines.size() > most) text += format("    and %zu more\n", lines.size() - most);
  return text;
}

const std::vector<std::string> kLadderColumns = {
    "rung",   "M x N x K", "us",    "TFLOP/s", "predicted TFLOP/s",        "gain", "predicted gain", "II",
    "stages", "roles",     "slots", "error",   "what the schedule changed"};

}  // namespace

std::vector<std::string> rung_changes(const Rung& before, const Rung& now) {
  std::vector<std::string> changes;
  const auto size = [&](const char* name, std::int64_t was, std::int64_t is) {
    if (was != is)
      changes.push_back(format("%s %lld -> %lld", name, static_cast<long long>(was), static_cast<long long>(is)));
  };
  size("M", before.m, now.m);
  size("N", before.n, now.n);
  size("K", before.k, now.k);
  if (const std::string was = tile_of(before.kernel), is = tile_of(now.kernel); was != is)
    changes.push_back("tile " + was + " -> " + is);
  const std::vector<std::string> words = schedule_changes(before.schedule, now.schedule);
  changes.insert(changes.end(), words.begin(), words.end());
  if (words.empty()) changes.push_back("the same schedule");
  return changes;
}

bool Ladder::right() const {
  return std::all_of(rungs.begin(), rungs.end(), [](const Rung& rung) { return rung.right(); });
}

namespace {

bool same_size(const Rung& x, const Rung& y) { return x.m == y.m && x.n == y.n && x.k == y.k; }

/// A line for each rung that is slower than the one before.
std::string slower_lines(const Ladder& ladder) {
  std::string text;
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i)
    if (const std::string why = ladder.why_slower(i); !why.empty())
      text += ladder.rungs[i].name + " is slower than " + ladder.rungs[i - 1].name + ": " + why + "\n";
  return text;
}

}  // namespace

double Ladder::gain(std::size_t rung) const {
  if (rung == 0 || !same_size(rungs[rung - 1], rungs[rung])) return 0;
  return rungs[rung].ms > 0 ? rungs[rung - 1].ms / rungs[rung].ms : 0;
}

double Ladder::predicted_gain(std::size_t rung) const {
  if (rung == 0 || !same_size(rungs[rung - 1], rungs[rung])) return 0;
  return rungs[rung].predicted_ms > 0 ? rungs[rung - 1].predicted_ms / rungs[rung].predicted_ms : 0;
}

std::string Ladder::why_slower(std::size_t rung) const {
  if (rung == 0 || on_model) return {};
  return samples::why_slower(rungs[rung - 1].schedule, rungs[rung].schedule, gain(rung), predicted_gain(rung));
}

std::string Ladder::timing_text() const {
  return (on_model ? std::string("the CPU model's, which say nothing of a GPU; ") : std::string()) +
         format("%d call%s in a row timed together, median of %d round%s in which the rungs take turns%s", calls,
                calls == 1 ? "" : "s", rounds, rounds == 1 ? "" : "s",
                settle_ms > 0 ? format(", each run for %d ms before it is timed", settle_ms).c_str() : "");
}

std::string ladder_text(const Ladder& ladder) {
  std::vector<std::vector<std::string>> table = {kLadderColumns};
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i) table.push_back(cells(ladder, i));
  std::vector<std::size_t> width(kLadderColumns.size(), 0);
  for (const auto& row : table)
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  std::string text;
  for (const auto& row : table) {
    for (std::size_t c = 0; c + 1 < row.size(); ++c) text += row[c] + std::string(width[c] - row[c].size() + 2, ' ');
    text += row.back() + "\n";
  }
  return text + slower_lines(ladder);
}

std::string rung_paragraph(const Rung& rung, std::size_t lines) {
  return rung.name + ": " + rung.adds + "\n" + some_lines("schedule", rung.schedule_lines, lines) +
         some_lines("unit", rung.unit_lines, lines);
}

std::string ladder_markdown(const Ladder& ladder, std::size_t lines) {
  std::string text = "# The ladder of a matrix product\n\n" + ladder.target + " on " + ladder.device + ", " +
                     ladder.dtype + "; " + ladder.timing_text() + ".\n\n|";
  for (const std::string& column : kLadderColumns) text += " " + column + " |";
  text += "\n|";
  for (std::size_t c = 0; c < kLadderColumns.size(); ++c) text += "---|";
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i) {
    text += "\n|";
    for (const std::string& cell : cells(ladder, i)) text += " " + cell + " |";
  }
  text += "\n";
  if (const std::string slower = slower_lines(ladder); !slower.empty()) text += "\n" + slower;
  for (const Rung& rung : ladder.rungs) {
    if (rung.adds.empty()) continue;
    const std::string paragraph = rung_paragraph(rung, lines);
    const std::size_t first = paragraph.find('\n') + 1;
    text += "\n" + paragraph.substr(0, first);
    if (first < paragraph.size()) text += "\n```\n" + paragraph.substr(first) + "```\n";
  }
  return text;
}

std::string ladder_json(const Ladder& ladder) {
  Json out;
  out["target"] = ladder.target;
  out["device"] = ladder.device;
  out["dtype"] = ladder.dtype;
  out["timing"] = {{"rounds", ladder.rounds}, {"calls", ladder.calls}, {"text", ladder.timing_text()}};
  out["right"] = ladder.right();
  out["rungs"] = Json::array();
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i) {
    const Rung& rung = ladder.rungs[i];
    Json slots = Json::object();
    for (const auto& [value, depth] : rung.schedule.slots) slots[value] = depth;
    out["rungs"].push_back(
        {{"rung", rung.name},
         {"kernel", rung.kernel},
         {"m", rung.m},
         {"n", rung.n},
         {"k", rung.k},
         {"ms", rung.ms},
         {"tflops", rung.tflops()},
         {"gain", ladder.gain(i) > 0 ? Json(ladder.gain(i)) : Json(nullptr)},
         {"predicted_tflops", rung.predicted_ms > 0 ? Json(rung.predicted_tflops()) : Json(nullptr)},
         {"predicted_gain", ladder.predicted_gain(i) > 0 ? Json(ladder.predicted_gain(i)) : Json(nullptr)},
         {"why_slower", ladder.why_slower(i)},
         {"ii", rung.schedule.ii},
         {"length", rung.schedule.length},
         {"stages", rung.schedule.stages},
         {"roles", rung.schedule.roles},
         {"slots", slots},
         {"cluster", rung.schedule.cluster},
         {"walk", rung.schedule.walk},
         {"certificate", rung.schedule.certificate},
         {"changes", rung.changes},
         {"adds", rung.adds},
         {"schedule_lines", rung.schedule_lines},
         {"unit_lines", rung.unit_lines},
         {"error", rung.error},
         {"limit", rung.limit},
         {"rows_compared", rung.rows_compared},
         {"right", rung.right()}});
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tj::samples
