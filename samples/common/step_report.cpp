// See step_report.hpp.
#include "common/step_report.hpp"

#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "common/prediction.hpp"
#include "common/report_text.hpp"

namespace tj::samples {
namespace {

using Json = nlohmann::ordered_json;
using Lines = std::vector<std::string>;

long long wide(std::int64_t value) { return static_cast<long long>(value); }

const Lines kColumns = {"seq len", "step",      "name",        "latency (ms)",      "in a graph (ms)",
                        "TFLOP/s", "predicted", "vs baseline", "vs previous",       "right",
                        "error",   "II",        "slots",       "busy, as scheduled"};

/// PyTorch on the CPU is hundreds of times as fast as the model's steps.
std::string gain_text(double gain) { return format(gain > 0 && gain < 0.1 ? "%.1gx" : "%.2fx", gain); }
/// A number that is there, else a dash.
std::string number_or_dash(const char* pattern, double value) { return value > 0 ? format(pattern, value) : "-"; }
std::string right_text(const StepResult& r) { return !r.checked ? "not checked" : r.right ? "yes" : "NO"; }

/// The time by the schedule: the part of it that each unit is held.
std::string busy_text(const ScheduleFacts& schedule) {
  std::string text;
  for (const auto& [unit, percent] : schedule.busy)
    text += format("%s%s %.0f%%", text.empty() ? "" : ", ", unit.c_str(), percent);
  return text;
}

Lines cells(const StepResult& r) {
  Lines row = {std::to_string(r.seq_len), r.step, r.name};
  if (!r.ran()) {
    row.push_back(r.failed.empty() ? "not run" : "FAILED");
    row.resize(kColumns.size(), "-");
    constexpr std::size_t kMost = 100;  // of a cell: its own lines say all of it
    row.back() = r.failed + r.skipped;
    if (row.back().size() > kMost) row.back() = row.back().substr(0, kMost - 3) + "...";
    return row;
  }
  for (const std::string& cell :
       {format("%.3f", r.latency_ms), number_or_dash("%.3f", r.graph_ms), format("%.4g", r.tflops),
        number_or_dash("%.4g", r.predicted_tflops), r.gain_baseline > 0 ? gain_text(r.gain_baseline) : "-",
        r.gain_previous > 0 ? gain_text(r.gain_previous) : "-", right_text(r),
        r.checked ? format("%.1e", r.reference.o_error) : std::string("-"),
        r.schedule.ii > 0 ? std::to_string(r.schedule.ii) : std::string("-"),
        r.schedule.ii > 0 ? r.schedule.slots_text() : std::string("-"),
        r.schedule.ii > 0 ? busy_text(r.schedule) : std::string("-")})
    row.push_back(cell);
  return row;
}

Lines problem_lines(const StepReport& report) {
  return {format("batch %lld, heads %lld, head dim %lld, %s, %s", wide(report.batch), wide(report.heads),
                 wide(report.head_dim), to_string(report.dtype), report.causal ? "causal" : "full"),
          "target " + report.target + " on " + report.device,
          format("data normal random, seed %llu", static_cast<unsigned long long>(report.seed)),
          "times " + report.timing_text()};
}

std::string line_of(const Lines& words, const std::vector<std::size_t>& widths) {
  std::string line = "|";
  for (std::size_t i = 0; i < words.size(); ++i)
    line += " " + words[i] + std::string(widths[i] - std::min(widths[i], words[i].size()), ' ') + " |";
  return line;
}

}  // namespace

std::vector<LatencyHint> latency_hints(const std::vector<LatencyHint>& asked, const ScheduleFacts& schedule) {
  std::vector<LatencyHint> hints = asked;
  const auto cycle_of = [&](const std::string& name) {
    for (const ScheduleFacts::Node& node : schedule.nodes)
      if (node.name.substr(0, node.name.find('.')) == name) return node.cycle;
    return 0;
  };
  for (LatencyHint& hint : hints) {
    const int ahead = schedule.ii > 0 ? (cycle_of(hint.use) - cycle_of(hint.load)) / schedule.ii : 0;
    hint.given = std::clamp(ahead, 0, hint.asked);
    for (const auto& [value, depth] : schedule.slots)
      if (value == hint.value) hint.slots = depth;
  }
  return hints;
}

std::vector<std::string> dropped_hints(const std::vector<LatencyHint>& hints) {
  Lines lines;
  for (const LatencyHint& hint : hints)
    if (!hint.met())
      lines.push_back(format("the hint of %d iterations for copies of %s is %s, with a ring of %d slot%s", hint.asked,
                             hint.value.c_str(), hint.given == 0 ? "dropped" : format("cut to %d", hint.given).c_str(),
                             hint.slots, hint.slots == 1 ? "" : "s"));
  return lines;
}

void set_gains(std::vector<StepResult>& results, double flops, bool timed) {
  const StepResult *baseline = nullptr, *previous = nullptr;
  for (StepResult& result : results) {
    if (!result.ran() || !(result.ms() > 0)) continue;
    result.tflops = samples::tflops(flops, result.ms());
    if (baseline == nullptr) baseline = &result;
    result.gain_baseline = baseline->ms() / result.ms();
    result.gain_previous = previous != nullptr ? previous->ms() / result.ms() : 1;
    if (result.predicted_ms > 0) result.predicted_tflops = samples::tflops(flops, result.predicted_ms);
    if (previous != nullptr && result.predicted_ms > 0 && previous->predicted_ms > 0)
      result.predicted_gain = previous->predicted_ms / result.predicted_ms;
    if (previous != nullptr && timed && result.schedule.ii > 0 && previous->schedule.ii > 0)
      result.slower = why_slower(previous->schedule, result.schedule, result.gain_previous, result.predicted_gain);
    previous = &result;
  }
}

bool StepReport::right() const {
  return std::all_of(results.begin(), results.end(),
                     [](const StepResult& result) { return !result.ran() || !result.checked || result.right; });
}
bool StepReport::any_ran() const {
  return std::any_of(results.begin(), results.end(), [](const StepResult& result) { return result.ran(); });
}
bool StepReport::any_failed() const {
  return std::any_of(results.begin(), results.end(), [](const StepResult& result) { return !result.failed.empty(); });
}

std::string StepReport::timing_text() const {
  const std::string settled =
      settle_ms > 0 ? format(", each run for %d ms before it is timed", settle_ms) : std::string();
  return (on_model ? "of the CPU model, which say nothing of a GPU; " : "") +
         format("median of %d, steps in turns", iterations) + settled;
}

std::vector<std::string> head_lines(const StepReport& report, const std::vector<std::int64_t>& seq_lens) {
  Lines lines = {std::string(80, '='), "Attention, step by step: each step is the same kernel, held to one thing less",
                 std::string(80, '=')};
  for (const std::string& line : problem_lines(report)) lines.push_back("  " + line);
  std::string lengths;
  for (const std::int64_t each : seq_lens) lengths += (lengths.empty() ? "" : ", ") + std::to_string(each);
  lines.push_back("  sequence lengths " + lengths);
  return lines;
}

std::vector<std::string> step_lines(const StepReport& report, const StepResult& r) {
  Lines lines = {"",
                 std::string(60, '-'),
                 format("Sequence length %lld, step %s: %s", wide(r.seq_len), r.step.c_str(), r.name.c_str()),
                 std::string(60, '-'),
                 r.description,
                 "Changes:"};
  for (const std::string& change : r.key_changes) lines.push_back("  - " + change);
  if (!r.skipped.empty()) lines.push_back("Not run: " + r.skipped);
  if (!r.failed.empty()) lines.push_back("[ERROR] Step " + r.step + " failed: " + r.failed);
  if (!r.ran()) return lines;
  lines.push_back("Kernel:      " + r.kernel);
  lines.push_back(format("Latency:     %.3f ms", r.latency_ms) +
                  (r.graph_ms > 0 ? format(", %.3f ms in a graph", r.graph_ms) : std::string()));
  lines.push_back(format("Throughput:  %.4g TFLOP/s", r.tflops) +
                  (r.predicted_tflops > 0 ? format(", predicted %.4g", r.predicted_tflops) : std::string()));
  lines.push_back("Gain:        " + gain_text(r.gain_baseline) + " over the baseline, " + gain_text(r.gain_previous) +
                  " over the step before" +
                  (r.predicted_gain > 0 ? ", predicted " + gain_text(r.predicted_gain) : std::string()));
  if (!r.slower.empty()) lines.push_back("Slower:      " + r.slower);
  lines.push_back(r.checked ? "Right:       " + right_text(r) + "; against f64: " + r.reference.text(report.dtype)
                            : "Right:       not checked, as --no-correctness-check asks");
  if (r.checked && r.baseline_error >= 0)
    lines.push_back(format("             all of it against the first rung: %.2e (limit %.0e), %lld elements apart",
                           r.baseline_error, max_error(report.dtype), wide(r.baseline_apart)));
  return lines;
}

std::vector<std::string> summary_lines(const StepReport& report) {
  std::vector<Lines> table = {kColumns};
  for (const StepResult& result : report.results) table.push_back(cells(result));
  std::vector<std::size_t> widths(kColumns.size());
  for (const Lines& row : table)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  Lines lines = {"", std::string(80, '='), "All steps", std::string(80, '=')};
  for (std::size_t row = 0; row < table.size(); ++row) {
    lines.push_back(line_of(table[row], widths));
    if (row > 0) continue;
    Lines rule;
    for (const std::size_t width : widths) rule.emplace_back(width, '-');
    lines.push_back(line_of(rule, widths));
  }
  return lines;
}

std::string steps_log(const StepReport& report) {
  std::string text;
  for (const std::string& line : report.log) text += line + "\n";
  return text;
}

namespace {

std::string markdown_row(const Lines& words) {
  std::string text = "|";
  for (const std::string& word : words) text += " " + word + " |";
  return text + "\n";
}
std::string markdown_head(const Lines& columns) {
  std::string text = markdown_row(columns) + "|";
  for (std::size_t i = 0; i < columns.size(); ++i) text += "---|";
  return text + "\n";
}

std::vector<std::int64_t> lengths_of(const StepReport& report) {
  std::vector<std::int64_t> lengths;
  for (const StepResult& result : report.results)
    if (std::find(lengths.begin(), lengths.end(), result.seq_len) == lengths.end()) lengths.push_back(result.seq_len);
  return lengths;
}

/// The steps that ran at a length, in the tutorial's columns.
std::string summary_markdown(const StepReport& report, std::int64_t seq_len) {
  std::string text = format("### Sequence length %lld\n\n", wide(seq_len)) +
                     markdown_head({"Step", "Name", "Latency (ms)", "TFLOPS", "vs Baseline", "vs Previous", "Correct"});
  for (const StepResult& r : report.results)
    if (r.seq_len == seq_len && r.ran())
      text += markdown_row({std::to_string(r.number), r.name, format("%.3f", r.ms()), format("%.2f", r.tflops),
                            gain_text(r.gain_baseline), gain_text(r.gain_previous),
                            !r.checked ? "not checked"
                            : r.right  ? "Yes"
                                       : "No"});
  return text + "\n";
}

std::string detail_markdown(const StepReport& report, const StepResult& first) {
  std::string text = format("\n### Step %d: %s\n\n**Description**: %s `--steps %s` runs it.\n\n**Key Changes**:\n",
                            first.number, first.name.c_str(), first.description.c_str(), first.step.c_str());
  for (const std::string& change : first.key_changes) text += "- " + change + "\n";
  text += "\n**Performance**:\n";
  for (const StepResult& each : report.results)
    if (each.step == first.step && !each.ran())
      text += format("- sequence length %lld: ", wide(each.seq_len)) +
              (each.failed.empty() ? "not run: " + each.skipped : "[ERROR] failed: " + each.failed) + "\n";
    else if (each.step == first.step)
      text += format("- sequence length %lld: %.3fms, %.2f TFLOPS, ", wide(each.seq_len), each.ms(), each.tflops) +
              gain_text(each.gain_baseline) + " vs baseline\n";
  return text;
}

}  // namespace

std::string steps_markdown(const StepReport& report) {
  std::string text = "# Attention, step by step\n\n";
  for (const std::string& line : problem_lines(report)) text += "- " + line + "\n";
  text += "\n## Summary Table\n\n";
  for (const std::int64_t length : lengths_of(report)) text += summary_markdown(report, length);
  text +=
      "TFLOPS and gains are of times in a graph where there are any; the baseline is the first step that ran.\n\n"
      "## Detailed Steps\n";
  Lines told;
  for (const StepResult& result : report.results) {
    if (std::find(told.begin(), told.end(), result.step) != told.end()) continue;
    told.push_back(result.step);
    text += detail_markdown(report, result);
  }
  text +=
      "\n## More Columns\n\nStep: as `--steps` names it. Error: of the output against f64; right: that, the "
      "log-sum-exp, each compared element, and the distance from the first rung's output, within their limits.\n\n";
  text += markdown_head(kColumns);
  for (const StepResult& result : report.results) text += markdown_row(cells(result));
  return text;
}

namespace {

Json result_json(const StepReport& report, const StepResult& r) {
  const auto there = [](bool is, double value) { return is ? Json(value) : Json(nullptr); };
  Json slots = Json::object(), busy = Json::object(), hints = Json::object();
  for (const auto& [value, depth] : r.schedule.slots) slots[value] = depth;
  for (const auto& [unit, percent] : r.schedule.busy) busy[unit] = percent;
  for (const LatencyHint& hint : r.hints)
    hints[hint.value] = {{"asked", hint.asked}, {"given", hint.given}, {"met", hint.met()}};
  const bool compared = r.ran() && r.checked;
  const Json right = r.ran() ? Json(!r.checked || r.right) : Json(nullptr);  // what did not run is neither
  return {{"seq_len", r.seq_len},
          {"step", r.number},
          {"word", r.step},
          {"name", r.name},
          {"description", r.description},
          {"kernel", r.kernel},
          {"ran", r.ran()},
          {"failed", r.failed},
          {"not_run", r.skipped},
          {"latency_ms", there(r.ran(), r.ms())},
          {"call_ms", there(r.ran(), r.latency_ms)},
          {"graph_ms", there(r.graph_ms > 0, r.graph_ms)},
          {"tflops", there(r.ran(), r.tflops)},
          {"gain_vs_baseline", there(r.gain_baseline > 0, r.gain_baseline)},
          {"gain_vs_previous", there(r.gain_previous > 0, r.gain_previous)},
          {"predicted_tflops", there(r.predicted_tflops > 0, r.predicted_tflops)},
          {"predicted_gain_vs_previous", there(r.predicted_gain > 0, r.predicted_gain)},
          {"why_slower", r.slower},
          {"speedup_vs_baseline", there(r.gain_baseline > 0, r.gain_baseline)},
          {"speedup_vs_previous", there(r.gain_previous > 0, r.gain_previous)},
          {"checked", compared},
          {"right", right},
          {"correct", right},
          {"error", there(compared, r.reference.o_error)},
          {"limit", max_error(report.dtype)},
          {"lse_error", there(compared && r.reference.lse_error >= 0, r.reference.lse_error)},
          {"rows_compared", r.reference.rows},
          {"rows_total", r.reference.rows_total},
          {"elements_apart", r.reference.apart},
          {"elements_apart_from_baseline", r.baseline_apart},
          {"error_vs_baseline", there(compared && r.baseline_error >= 0, r.baseline_error)},
          {"key_changes", r.key_changes},
          {"hints", hints},
          {"ii", r.schedule.ii},
          {"length", r.schedule.length},
          {"stages", r.schedule.stages},
          {"slots", slots},
          {"blocks_per_sm", r.schedule.blocks_per_sm},
          {"busy_percent", busy},
          {"certificate", r.schedule.certificate}};
}

}  // namespace

std::string steps_json(const StepReport& report) {
  Json out = {{"target", report.target},
              {"device", report.device},
              {"on_model", report.on_model},
              {"batch", report.batch},
              {"heads", report.heads},
              {"head_dim", report.head_dim},
              {"dtype", to_string(report.dtype)},
              {"causal", report.causal},
              {"iterations", report.iterations},
              {"settle_ms", report.settle_ms},
              {"seed", report.seed},
              {"right", report.any_ran() ? Json(report.right()) : Json(nullptr)},
              {"any_failed", report.any_failed()}};
  out["results"] = out["not_run"] = Json::array();
  for (const StepResult& r : report.results) out[r.ran() ? "results" : "not_run"].push_back(result_json(report, r));
  out["log"] = report.log;
  out["logs"] = report.log;
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tj::samples
