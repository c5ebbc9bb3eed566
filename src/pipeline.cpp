// See pipeline.hpp.
#include "pipeline.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>

#include "codegen/templates.hpp"
#include "compile/compile_log.hpp"
#include "compile/includes.hpp"
#include "sched/report_json.hpp"
#include "stage_line.hpp"
#include "support/atomic_file.hpp"
#include "support/fail.hpp"
#include "support/hash.hpp"
#include "support/text.hpp"
#include "support/tool_range.hpp"

namespace tj {
namespace {

using support::cat;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kModelPrefix = "model/";

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void require_primitives(const arch::Target& target) {
  const std::string file = cat("arch/", target.arch->primitives, ".cuh");
  if (!has_header(headers_for(target), file))
    support::fail(Stage::target, Code::unsupported,
                  cat("target '", target.name(), "' has no primitives: there is no kernel_templates/",
                      target.model ? kModelPrefix : "", file));
}

// Writes a text to the folder where people look when a compile fails. Never fails itself: a dump is a help, not a
// result.
std::string dump(const std::string& directory, const std::string& file, const std::string& text,
                 const support::Log& log) {
  if (directory.empty()) return {};
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);  // an existing one is fine; the write tells what is not
  const std::string path = (std::filesystem::path(directory) / file).string();
  std::string problem;
  if (support::write_file_atomically(path, text, 0644, &problem)) return path;
  log(LogLevel::warn, cat("could not dump ", support::shown_path(path), ": ", problem));
  return {};
}

/// The line of a user's function that a compiler's first error is about: "mask_mod(2): error: ...", or with colons.
struct BadLine {
  const graph::Function* function = nullptr;
  std::ptrdiff_t line = 0;
};
BadLine bad_line(const std::vector<graph::Function>& functions, std::string_view error) {
  for (const graph::Function& function : functions) {
    if (error.substr(0, function.name.size()) != function.name) continue;
    const std::string_view rest = error.substr(function.name.size());
    if (rest.empty() || (rest[0] != '(' && rest[0] != ':')) continue;
    const std::size_t end = std::min(rest.find_first_not_of("0123456789", 1), rest.size());
    if (end <= 1 || end > 6) continue;
    const auto lines = 1 + std::count(function.body.begin(), function.body.end(), '\n');  // the next has the brace
    return {&function, std::min<std::ptrdiff_t>(lines, std::stoi(std::string(rest.substr(1, end - 1))))};
  }
  return {};
}

/// Refuses a kernel whose user wrote a text that does not compile.
void refuse_function(const graph::Graph& graph, const ops::Request& request, const Error& e) {
  const std::string error = compile::first_error(e.log);
  const BadLine bad = bad_line(graph.functions, error);
  if (bad.function == nullptr) return;
  support::fail(e.stage, e.code,
                cat(request.op, ": ", bad.function->name, " does not compile, line ", bad.line, ": ",
                    error.substr(std::min(error.find("error"), error.size()))),
                e.log);
}

compile::Binary compile_unit(const graph::Graph& graph, const codegen::Unit& unit, std::vector<compile::Header> headers,
                             std::vector<std::string> options, const ops::Request& request, const arch::Target& target,
                             compile::Compiler& compiler, const std::string& source_path, const support::Log& log) {
  compile::Job job;
  job.name = request.name + (target.model ? ".cpp" : ".cu");
  job.text = unit.text;
  job.headers = std::move(headers);
  job.arch = target.arch->compiler_name();
  job.options = std::move(options);
  try {
    return compiler.compile(job);
  } catch (const Error& e) {
    if (!source_path.empty())
      dump(std::filesystem::path(source_path).parent_path().string(),
           std::filesystem::path(source_path).filename().string() + ".log", e.log, log);
    if (e.code == Code::compile_failed) refuse_function(graph, request, e);
    std::string next;  // when the source is to blame
    if (e.code == Code::compile_failed)
      next = source_path.empty() ? "; set TJ_DUMP_DIR to keep the source" : "; the source is " + source_path;
    support::fail(e.stage, e.code, e.message + next, e.log, source_path);
  }
}

// A hash of everything that the compiler can have read.
std::string source_hash(const std::string& text, const std::vector<compile::Header>& headers) {
  support::FieldHash hash;
  hash.field("text", text);
  for (const auto& header : compile::included_by(text, headers)) hash.field(header.name, header.text);
  return support::to_hex(hash.finish());
}

}  // namespace

cache::Fields compiler_fields(const compile::Compiler& compiler) {
  cache::Fields fields;
  const compile::Identity identity = compiler.identity();
  if (!identity.present()) return fields;
  fields = {{"kind", identity.kind},
            {"path", identity.path},
            {"size", cat(identity.size)},
            {"mtime", cat(identity.mtime_ns)}};
  for (const compile::FileStamp& helper : identity.helpers) {
    fields.emplace_back("helper", helper.path);
    fields.emplace_back("helper_size", cat(helper.size));
    fields.emplace_back("helper_mtime", cat(helper.mtime_ns));
  }
  return fields;
}

// The model's files stand in for those of the same name.
std::vector<compile::Header> headers_for(const arch::Target& target, const ops::Maker* maker) {
  std::vector<compile::Header> headers;
  for (const auto& file : codegen::templates()) {
    if (file.name.substr(0, kModelPrefix.size()) == kModelPrefix) {
      if (target.model) headers.push_back({std::string(file.name.substr(kModelPrefix.size())), file.text});
    } else if (!target.model || file.name.substr(0, 5) != "arch/") {
      headers.push_back({std::string(file.name), file.text});
    }
  }
  if (maker != nullptr)
    for (const ops::TemplateText& file : maker->templates()) headers.push_back({file.name, file.text});
  return headers;
}

bool has_header(const std::vector<compile::Header>& headers, std::string_view name) {
  return std::any_of(headers.begin(), headers.end(),
                     [&](const compile::Header& header) { return header.name == name; });
}

cache::Key key_of(const ops::Request& request, const arch::Target& target, const compile::Compiler& compiler) {
  cache::Fields fields = {{"op", request.op}, {"target", target.name()}, {"build", build_id()}, {"choice", "model"}};
  for (const auto& [name, value] : request.fields) fields.emplace_back("request." + name, value);
  for (const std::string& option : compiler.base_options(target.arch->compiler_name()))
    fields.emplace_back("option", option);
  return cache::make_key(fields, compiler_fields(compiler));
}

namespace {

std::vector<std::string> options_of(const ops::Candidate& candidate, const compile::Compiler& compiler, bool quick) {
  std::vector<std::string> options = quick ? compiler.quick_options() : std::vector<std::string>();
  for (const std::string& definition : candidate.definitions) options.push_back("-D" + definition);
  return options;
}

std::string file_of(const Source& source) {
  return cat(kernel_id(source.named.name, source.target), source.target.model ? ".cpp" : ".cu");
}

/// A source, emitted for a choice. The report goes on from that of an earlier text.
Source source_of(const ops::Request& named, const codegen::EmitOptions& how, const ops::Maker& op,
                 const ops::Request& request, const arch::Target& target, Choice choice, KernelReport report) {
  Source source{named, request, how, target, std::move(choice), {}, {}, std::move(report)};
  sched::Schedule untimed = source.choice.schedule;  // equal kernels have equal entries
  untimed.solve_ms = 0;
  source.report.schedule_json = sched::to_json(
      source.choice.candidate.graph, untimed, {.sm_count = target.arch->sm_count, .clock_ghz = target.arch->clock_ghz});
  const auto start = Clock::now();
  const support::ToolRange range("codegen", named.name);
  source.unit = codegen::emit(source.choice.candidate.graph, source.choice.schedule, target.arch->primitives, how);
  source.report.codegen_ms += ms_since(start);
  source.geometry = op.geometry(request, source.choice.candidate);
  return source;
}

Choice scheduled(const ops::Maker& op, const ops::Request& request, const arch::Target& target) {
  const support::ToolRange range("schedule", request.name);
  Choice choice = choose(op, request, *target.arch);  // refuses first what the op itself cannot: it knows where it runs
  require_primitives(target);
  return choice;
}

/// `named` is what the kernel is called, and `request` what it is chosen by.
Source make_source_as(const ops::Request& named, const codegen::EmitOptions& how, const ops::Maker& op,
                      const ops::Request& request, const arch::Target& target) {
  KernelReport report;
  report.name = named.name;
  report.target = target.name();
  const auto start = Clock::now();
  Choice choice = scheduled(op, request, target);
  report.schedule_ms = ms_since(start);
  return source_of(named, how, op, request, target, std::move(choice), std::move(report));
}

/// Compiles sources of one request, and says what it does.
class SourceCompiler {
 public:
  SourceCompiler(const ops::Maker& op, compile::Compiler& compiler, const support::Settings& settings,
                 const support::Log& log, bool quick)
      : op_(op), compiler_(compiler), settings_(settings), log_(log), quick_(quick) {}

  compile::Binary compile(Source& source) const {
    const support::ToolRange range(quick_ ? "quick-compile" : "compile", source.named.name);
    const std::string file = file_of(source);
    source.report.source_path = dump(settings_.dump_dir, file, source.unit.text, log_);
    compile::Binary binary = compile_unit(source.choice.candidate.graph, source.unit, headers_for(source.target, &op_),
                                          options_of(source.choice.candidate, compiler_, quick_), source.named,
                                          source.target, compiler_, source.report.source_path, log_);
    source.report.compile_ms += binary.milliseconds;
    dump(settings_.dump_dir, file + (quick_ ? ".quick.log" : ".log"), binary.log, log_);
    return binary;
  }

  /// Nobody knows the registers of a user's function before it is compiled: smaller tiles are tried while it spills.
  /// The one that spills least is taken.
  void without_spills(Source& best, compile::Binary& binary) const {
    double flops = best.choice.candidate.graph.flops_per_iteration;
    while (binary.spill_bytes > 0 && !best.choice.candidate.graph.functions.empty() && !quick_) {
      std::optional<Choice> smaller;
      try {
        smaller = choose(op_, best.request, *best.target.arch, {}, flops);
      } catch (const Error&) {
        break;  // there is none
      }
      flops = smaller->candidate.graph.flops_per_iteration;
      Source next = source_of(best.named, best.how, op_, best.request, best.target, std::move(*smaller), best.report);
      compile::Binary other = compile(next);
      const bool better = other.spill_bytes < binary.spill_bytes;
      log_(LogLevel::warn,
           cat(best.named.name, " on ", best.target.name(), ": ", best.choice.candidate.graph.name, " spills ",
               binary.spill_bytes, " bytes with the texts of the call; ", next.choice.candidate.graph.name,
               ", the next smaller tile, spills ", other.spill_bytes, " and is ", better ? "taken" : "not taken"));
      if (better) {
        best = std::move(next);
        binary = std::move(other);
        continue;
      }
      best.report.codegen_ms = next.report.codegen_ms;
      best.report.compile_ms = next.report.compile_ms;
      dump(settings_.dump_dir, file_of(best), best.unit.text, log_);  // in the place of the other's
    }
  }

  /// `source` becomes the one that was taken.
  Artifact artifact(Source& source) const {
    compile::Binary binary = compile(source);
    without_spills(source, binary);
    Artifact artifact;
    artifact.report = source.report;
    artifact.report.registers = binary.registers;
    for (const std::string& warning : binary.warnings)
      log_(quick_ ? LogLevel::debug : LogLevel::warn,
           cat(source.named.name, " on ", source.report.target, " is slower than it should be: ", warning));
    artifact.binary = std::move(binary.bytes);
    artifact.shape = source.unit.shape;
    artifact.geometry = source.geometry;
    artifact.source_sha256 = source_hash(source.unit.text, headers_for(source.target, &op_));
    artifact.compiler_version = compiler_.version();
    artifact.quick = quick_;
    return artifact;
  }

 private:
  const ops::Maker& op_;
  compile::Compiler& compiler_;
  const support::Settings& settings_;
  const support::Log& log_;
  const bool quick_;
};

}  // namespace

Source make_source(const ops::Maker& op, const ops::Request& request, const arch::Target& target) {
  return make_source_as(request, {}, op, request, target);
}

cache::Key text_key_of(const ops::Maker& op, const Source& source, const compile::Compiler& compiler) {
  const codegen::Unit& unit = source.unit;
  const std::string arch = source.target.arch->compiler_name();
  cache::Fields fields = {{"name", source.named.name}, {"target", source.target.name()}, {"arch", arch}};
  for (const auto& [name, value] : shape_fields(unit.shape)) fields.emplace_back("shape." + name, value);
  for (const ops::GeometryField& field : op.geometry_fields())
    fields.emplace_back(cat("geometry.", field.name), cat(field.get(source.geometry)));
  for (const std::string& option : compiler.base_options(arch)) fields.emplace_back("option", option);
  for (const std::string& option : options_of(source.choice.candidate, compiler, false))
    fields.emplace_back("own_option", option);
  fields.emplace_back("source", source_hash(unit.text, headers_for(source.target, &op)));
  return cache::make_text_key(fields, compiler_fields(compiler));
}

Artifact compile_source(const ops::Maker& op, const Source& source, compile::Compiler& compiler,
                        const support::Settings& settings, const support::Log& log, bool quick) {
  Source taken = source;
  return SourceCompiler(op, compiler, settings, log, quick).artifact(taken);
}

Artifact make(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
              compile::Compiler& compiler, const support::Settings& settings, const support::Log& log) {
  return compile_source(op, make_source(op, request, target), compiler, settings, log);
}

ops::Request recording_request(ops::Request request) {
  request.fields.emplace_back("record", "true");
  request.name += "_recording";
  return request;
}

Recording make_recording(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
                         compile::Compiler& compiler, const support::Settings& settings, const support::Log& log) {
  Source source = make_source_as(recording_request(request), {.record = true}, op, request, target);
  Recording made;
  made.artifact = SourceCompiler(op, compiler, settings, log, false).artifact(source);
  made.choice = std::move(source.choice);
  made.unit = std::move(source.unit);
  return made;
}

}  // namespace tj
