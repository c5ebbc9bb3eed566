// Counters as texts.
//
// Decides names and order in JSON and in Prometheus' format. Counts nothing (maker.cpp, cache/store.cpp).
#include <tilejit/counters.hpp>

#include <string_view>
#include <utility>

#include "support/fail.hpp"
#include "support/json.hpp"
#include "support/text_stream.hpp"

namespace tj {
namespace {

using support::Json;

struct Number {
  const char* name;        ///< in JSON
  const char* prometheus;  ///< behind "tilejit_", before "_total"
  const char* help;
  std::uint64_t Counters::* member;
};
constexpr Number kNumbers[] = {
    {"misses", "cache_misses", "Look-ups on disk that found no kernel.", &Counters::misses},
    {"alias_hits", "cache_alias_hits", "Look-ups on disk that found the request's alias.", &Counters::alias_hits},
    {"alias_misses", "cache_alias_misses", "Look-ups on disk whose text was made again.", &Counters::alias_misses},
    {"other_compiler_hits", "cache_other_compiler_hits", "Kernels found in packs that another compiler made.",
     &Counters::other_compiler_hits},
    {"shared", "cache_shared", "Misses that another call, thread or process had made meanwhile.", &Counters::shared},
    {"waits", "waits", "Times that a call waited for another thread or process.", &Counters::waits},
    {"compiles", "compiles", "Kernels made.", &Counters::compiles},
    {"failed_compiles", "compile_failures", "Kernels that could not be made.", &Counters::failed_compiles},
    {"refused", "cache_refused", "Misses that the policy error refused.", &Counters::refused},
    {"quick_kernels", "quick_kernels", "Quick kernels that calls took.", &Counters::quick_kernels},
    {"quick_replaced", "quick_replaced", "Quick kernels that the best ones replaced.", &Counters::quick_replaced},
    {"remote_hits", "remote_hits", "Misses whose kernel the remote store had.", &Counters::remote_hits},
    {"remote_misses", "remote_misses", "Questions that the remote store had no kernel for.", &Counters::remote_misses},
    {"remote_failures", "remote_failures", "Functions of the remote store that failed or took too long.",
     &Counters::remote_failures},
    {"remote_rejected", "remote_rejected", "Values of the remote store that were not used.",
     &Counters::remote_rejected},
    {"remote_skipped", "remote_skipped", "Questions that were not asked, behind repeated failures.",
     &Counters::remote_skipped},
    {"remote_puts", "remote_puts", "Values that the remote store keeps.", &Counters::remote_puts},
    {"remote_bytes_read", "remote_read_bytes", "Bytes of the remote store's values that were used.",
     &Counters::remote_bytes_read},
    {"remote_bytes_written", "remote_written_bytes", "Bytes of values that the remote store keeps.",
     &Counters::remote_bytes_written},
    {"loads", "loads", "Kernels that a driver loaded.", &Counters::loads},
    {"unloads", "unloads", "Kernels that were unloaded while the runtime lives.", &Counters::unloads},
    {"bytes_unloaded", "unloaded_bytes", "Bytes of binaries of kernels unloaded.", &Counters::bytes_unloaded},
    {"stores", "cache_stores", "Entries written.", &Counters::stores},
    {"alias_stores", "cache_alias_stores", "Aliases written.", &Counters::alias_stores},
    {"failed_stores", "cache_store_failures", "Entries that could not be written.", &Counters::failed_stores},
    {"bytes_written", "cache_written_bytes", "Bytes of entries written.", &Counters::bytes_written},
    {"evictions", "cache_evictions", "Entries removed to stay within the bound.", &Counters::evictions},
    {"bytes_evicted", "cache_evicted_bytes", "Bytes of entries removed.", &Counters::bytes_evicted},
};

struct Seconds {
  const char* name;  ///< the label's value
  double Counters::* member;
};
constexpr Seconds kStages[] = {{"wait", &Counters::wait_s},
                               {"schedule", &Counters::schedule_s},
                               {"codegen", &Counters::codegen_s},
                               {"compile", &Counters::compile_s},
                               {"load", &Counters::load_s}};

struct Held {
  const char* name;        ///< in JSON
  const char* prometheus;  ///< behind "tilejit_"
  const char* help;
  std::uint64_t Counters::DeviceUse::* member;
};
constexpr Held kHeld[] = {
    {"kernels", "loaded_kernels", "Kernels that are loaded.", &Counters::DeviceUse::kernels},
    {"code_bytes", "loaded_code_bytes", "Bytes of binaries that are loaded.", &Counters::DeviceUse::code_bytes},
    {"workspace_bytes", "workspace_bytes", "Bytes of the pool of workspaces.", &Counters::DeviceUse::workspace_bytes},
    {"workspace_used_bytes", "workspace_used_bytes", "Bytes of that pool in use.",
     &Counters::DeviceUse::workspace_used_bytes},
    {"allocated_bytes", "allocated_bytes", "Bytes that allocate() gave.", &Counters::DeviceUse::allocated_bytes},
};

/// The value of a label, in its quotes.
std::string label(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '\n') {
      quoted += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

/// The page, a metric after the other.
class Page {
 public:
  void metric(std::string_view name, std::string_view help) {
    name_ = support::cat("tilejit_", name, "_total");
    text_ << "# HELP " << name_ << ' ' << help << "\n# TYPE " << name_ << " counter\n";
  }
  /// One that may fall.
  void gauge(std::string_view name, std::string_view help) {
    name_ = support::cat("tilejit_", name);
    text_ << "# HELP " << name_ << ' ' << help << "\n# TYPE " << name_ << " gauge\n";
  }
  template <class Value>
  void value(Value value) {
    text_ << name_ << ' ' << value << '\n';
  }
  template <class Value>
  void value(std::string_view name, std::string_view of, Value value) {
    text_ << name_ << '{' << name << '=' << label(of) << "} " << value << '\n';
  }
  std::string text() const { return text_.str(); }

 private:
  std::string name_;
  support::TextStream text_;
};

}  // namespace

std::string Counters::json() const {
  Json out;
  out["layers"] = Json::array();
  for (const Layer& layer : layers)
    out["layers"].push_back({{"directory", layer.directory}, {"hits", layer.hits}, {"bytes_read", layer.bytes_read}});
  out["devices"] = Json::array();
  for (const DeviceUse& use : devices) {
    Json each{{"device", use.device}};
    for (const Held& held : kHeld) each[held.name] = use.*held.member;
    out["devices"].push_back(std::move(each));
  }
  for (const Number& number : kNumbers) out[number.name] = this->*number.member;
  for (const Seconds& stage : kStages) out[support::cat(stage.name, "_s")] = this->*stage.member;
  out["rejected"] = Json::object();
  for (const Rejected& each : rejected) out["rejected"][each.reason] = each.entries;
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string Counters::prometheus() const {
  Page page;
  page.metric("cache_hits", "Kernels found on disk.");
  for (const Layer& layer : layers) page.value("layer", layer.directory, layer.hits);
  page.metric("cache_read_bytes", "Bytes of entries that were found whole.");
  for (const Layer& layer : layers) page.value("layer", layer.directory, layer.bytes_read);
  for (const Number& number : kNumbers) {
    page.metric(number.prometheus, number.help);
    page.value(this->*number.member);
  }
  for (const Held& held : kHeld) {
    page.gauge(held.prometheus, held.help);
    for (const DeviceUse& use : devices) page.value("device", use.device, use.*held.member);
  }
  page.metric("stage_seconds", "Seconds by stage, summed over threads.");
  for (const Seconds& stage : kStages) page.value("stage", stage.name, this->*stage.member);
  page.metric("cache_rejected", "Entries that are there and were not used, by reason.");
  for (const Rejected& each : rejected) page.value("reason", each.reason, each.entries);
  return page.text();
}

}  // namespace tj
