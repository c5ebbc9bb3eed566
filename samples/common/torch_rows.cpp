// See torch_rows.hpp.
#include "common/torch_rows.hpp"

#include <sys/wait.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <sstream>

#include <nlohmann/json.hpp>

namespace tj::samples {
namespace {

using Json = nlohmann::json;

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

template <class List>
std::string with_commas(const List& list) {
  std::ostringstream text;
  for (const auto& each : list) text << (text.tellp() > 0 ? "," : "") << each;
  return text.str();
}

std::string command_of(const TorchCall& call) {
  std::string command = quoted(call.python) + " " + quoted(call.script);
  const auto add = [&](const char* name, const std::string& value) {
    command += std::string(" ") + name + " " + quoted(value);
  };
  add("--rows", with_commas(call.rows));
  add("--seq-lens", with_commas(call.seq_lens));
  add("--batch", std::to_string(call.batch));
  add("--heads", std::to_string(call.heads));
  add("--head-dim", std::to_string(call.head_dim));
  add("--dtype", to_string(call.dtype));
  add("--causal", call.causal ? "true" : "false");
  add("--check", call.check ? "true" : "false");
  add("--iterations", std::to_string(call.iterations));
  add("--settle", std::to_string(call.settle_ms));
  add("--seed", std::to_string(call.seed % (1u << 31)));
  return command;
}

std::string end_of(int status, const std::string& python) {
  if (status == -1) return std::string("it cannot be started: ") + std::strerror(errno);
  if (WIFSIGNALED(status)) return "Python was ended by signal " + std::to_string(WTERMSIG(status));
  const int code = WEXITSTATUS(status);
  if (code == 127 || code == 126) return "'" + python + "' cannot be run; give --python";
  return code == 0 ? std::string() : "Python ended with " + std::to_string(code);
}

void take(const Json& line, TorchRow& row) {
  row.latency_ms = line.value("latency_ms", 0.0);
  row.graph_ms = line.value("graph_ms", 0.0);
  const Json error = line.value("error", Json(0.0));  // null: NaN or infinity, which JSON does not have
  row.error = error.is_null() ? std::numeric_limits<double>::quiet_NaN() : error.get<double>();
  row.rows_compared = line.value("rows_compared", std::int64_t{0});
  row.rows_total = line.value("rows_total", row.rows_compared);
  row.apart = line.value("apart", std::int64_t{0});
  row.by = line.value("by", std::string());
  row.missing = line.value("missing", std::string());
  if (row.missing.empty() && !(row.latency_ms > 0)) row.missing = "the child wrote no time";
}

}  // namespace

std::vector<TorchRow> read_torch_rows(const TorchCall& call, const std::string& lines, const std::string& ended) {
  std::vector<TorchRow> rows;
  for (const std::int64_t length : call.seq_lens)
    for (const std::string& row : call.rows)
      rows.push_back(
          {.row = row, .seq_len = length, .by = {}, .missing = ended.empty() ? "the child left the row out" : ended});
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) continue;  // words of a library's
    try {
      for (TorchRow& row : rows) {
        const bool of_all = json.contains("all_missing");
        if (of_all) row.missing = json.at("all_missing").get<std::string>();
        if (!of_all && json.value("row", "") == row.row && json.value("seq_len", std::int64_t{0}) == row.seq_len)
          take(json, row);
      }
    } catch (const Json::exception&) {  // a line of other types: the row keeps what is said of it
    }
  }
  return rows;
}

std::vector<TorchRow> time_torch(const TorchCall& call) {
  std::string lines;
  std::FILE* const child = ::popen(command_of(call).c_str(), "r");
  int status = -1;
  if (child != nullptr) {
    char part[4096];
    for (std::size_t bytes; (bytes = std::fread(part, 1, sizeof part, child)) > 0;) lines.append(part, bytes);
    status = ::pclose(child);
  }
  return read_torch_rows(call, lines, end_of(status, call.python));
}

}  // namespace tj::samples
