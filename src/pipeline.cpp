// See pipeline.hpp.
#include "pipeline.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>

#include "codegen/templates.hpp"
#include "compile/compile_log.hpp"
#include "support/atomic_file.hpp"
#include "support/fail.hpp"
#include "support/hash.hpp"

namespace tj {
namespace {

using support::cat;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kModelPrefix = "model/";

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

bool embedded(const std::vector<compile::Header>& headers, const std::string& name) {
  return std::any_of(headers.begin(), headers.end(),
                     [&](const compile::Header& header) { return header.name == name; });
}

// A graph may be schedulable for an arch that nobody wrote node bodies for.
void require_bodies(const ops::Maker& op, const graph::Graph& graph, const arch::Arch& arch) {
  const auto headers = headers_for({&arch, false}, &op);
  for (const std::string& include : graph.includes)
    if (!embedded(headers, include))
      support::fail(Stage::target, Code::unsupported,
                    cat("op '", op.name(), "' has no kernel for the arch family '", arch.family, "' of '", arch.name,
                        "': there is no kernel_templates/", include));
}

void require_primitives(const arch::Target& target) {
  const std::string file = cat("arch/", target.arch->primitives, ".cuh");
  if (!embedded(headers_for(target), file))
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
  log(LogLevel::warn, cat("could not dump ", path, ": ", problem));
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

// A hash of everything that the compiler read.
std::string source_hash(const std::string& text, const std::vector<compile::Header>& headers) {
  support::FieldHash hash;
  hash.field("text", text);
  for (const auto& header : headers) hash.field(header.name, header.text);
  return support::to_hex(hash.finish());
}

}  // namespace

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

cache::Key key_of(const ops::Request& request, const arch::Target& target, const compile::Compiler& compiler) {
  cache::Fields fields = {{"op", request.op}, {"target", target.name()}, {"build", build_id()}, {"choice", "model"}};
  for (const auto& [name, value] : request.fields) fields.emplace_back("request." + name, value);
  for (const std::string& option : compiler.base_options(target.arch->compiler_name()))
    fields.emplace_back("option", option);
  cache::Fields maker;
  const compile::Identity identity = compiler.identity();
  if (identity.present()) {
    maker = {{"kind", identity.kind},
             {"path", identity.path},
             {"size", cat(identity.size)},
             {"mtime", cat(identity.mtime_ns)}};
    for (const compile::FileStamp& helper : identity.helpers) {
      maker.emplace_back("helper", helper.path);
      maker.emplace_back("helper_size", cat(helper.size));
      maker.emplace_back("helper_mtime", cat(helper.mtime_ns));
    }
  }
  return cache::make_key(fields, maker);
}

namespace {

sched::Options options_for(const ops::Candidate& candidate, const sched::Options& options) {
  sched::Options own = options;
  own.order_barriers = options.order_barriers && candidate.turns;
  if (own.max_stages == 0) own.max_stages = candidate.max_stages;
  if (own.max_slots == 0) own.max_slots = candidate.max_slots;
  own.copies_apart = options.copies_apart || candidate.copies_apart;
  if (candidate.one_role) {
    own.mixed_roles = true;
    own.max_roles = 1;
  }
  return own;
}

/// The shape that is taken, where the usual search did not settle its interval: once more, for longer.
void settle(Choice& choice, const sched::Options& options) {
  if (choice.schedule.proven_ii || choice.candidate.node_budget == 0 || options.node_budget != sched::kBudgetBySize)
    return;
  sched::Options longer = options_for(choice.candidate, options);
  longer.node_budget = choice.candidate.node_budget;
  sched::Schedule again = sched::schedule(choice.candidate.graph, longer);
  if (again.ii <= choice.schedule.ii) choice.schedule = std::move(again);
}

}  // namespace

Choice choose(const ops::Maker& op, const ops::Request& request, const arch::Arch& arch, const sched::Options& options,
              double below_flops) {
  std::optional<Choice> best;
  std::optional<Error> refused;  // the first, with the reasons of all
  double best_rate = 0;
  for (ops::Candidate& candidate : op.candidates(request, arch)) {
    if (below_flops > 0 && candidate.graph.flops_per_iteration >= below_flops) continue;
    try {
      require_bodies(op, candidate.graph, arch);
      sched::Schedule schedule = sched::schedule(candidate.graph, options_for(candidate, options));
      const double cycles = candidate.graph.overhead_cycles + candidate.typical_iterations * schedule.ii +
                            (schedule.length - schedule.ii);
      const double rate = candidate.useful_flops * candidate.graph.blocks_per_sm / cycles;
      if (best && rate <= best_rate) continue;
      best_rate = rate;
      best = Choice{std::move(candidate), std::move(schedule)};
    } catch (const Error& e) {
      if (!refused)
        refused = e;  // another shape may fit
      else if (refused->message.find(e.message) == std::string::npos)
        refused = Error(refused->stage, refused->code, refused->message + "; " + e.message, refused->log);
    }
  }
  if (!best && refused) throw *refused;
  if (!best)
    support::fail(Stage::schedule, Code::unsupported, cat("'", request.name, "' has no tile shape for ", arch.name));
  settle(*best, options);
  return std::move(*best);
}

namespace {

struct How {
  codegen::EmitOptions emit;
  bool quick = false;
};

std::vector<std::string> options_of(const ops::Candidate& candidate, const compile::Compiler& compiler, bool quick) {
  std::vector<std::string> options = quick ? compiler.quick_options() : std::vector<std::string>();
  for (const std::string& definition : candidate.definitions) options.push_back("-D" + definition);
  return options;
}

/// A choice with what was made of it.
struct Built {
  Choice choice;
  codegen::Unit unit;
  compile::Binary binary;
};

class Builder {
 public:
  Builder(const ops::Request& named, const How& how, const ops::Maker& op, const arch::Target& target,
          compile::Compiler& compiler, const support::Settings& settings, const support::Log& log)
      : named_(named), how_(how), op_(op), target_(target), compiler_(compiler), settings_(settings), log_(log) {}

  Built build(Choice choice, KernelReport& report) const {
    const auto start = Clock::now();
    codegen::Unit unit = codegen::emit(choice.candidate.graph, choice.schedule, target_.arch->primitives, how_.emit);
    report.codegen_ms += ms_since(start);
    const std::string file =
        cat(named_.name, "-", target_.model ? "model-" : "", target_.arch->file_name(), target_.model ? ".cpp" : ".cu");
    report.source_path = dump(settings_.dump_dir, file, unit.text, log_);
    compile::Binary binary = compile_unit(choice.candidate.graph, unit, headers_for(target_, &op_),
                                          options_of(choice.candidate, compiler_, how_.quick), named_, target_,
                                          compiler_, report.source_path, log_);
    report.compile_ms += binary.milliseconds;
    dump(settings_.dump_dir, file + (how_.quick ? ".quick.log" : ".log"), binary.log, log_);
    return {std::move(choice), std::move(unit), std::move(binary)};
  }

  /// Nobody knows the registers of a user's function before it is compiled: smaller tiles are tried while it spills.
  /// The one that spills least is taken.
  Built without_spills(Built first, const ops::Request& request, KernelReport& report) const {
    Built best = std::move(first);
    double flops = best.choice.candidate.graph.flops_per_iteration;
    while (best.binary.spill_bytes > 0 && !best.choice.candidate.graph.functions.empty() && !how_.quick) {
      std::optional<Choice> smaller;
      try {
        smaller = choose(op_, request, *target_.arch, {}, flops);
      } catch (const Error&) {
        break;  // there is none
      }
      flops = smaller->candidate.graph.flops_per_iteration;
      const std::string spills = cat(best.choice.candidate.graph.name, " spills ", best.binary.spill_bytes, " bytes");
      Built next = build(std::move(*smaller), report);
      const bool better = next.binary.spill_bytes < best.binary.spill_bytes;
      log_(LogLevel::warn, cat(named_.name, " on ", target_.name(), ": ", spills, " with the texts of the call; ",
                               next.choice.candidate.graph.name, ", the next smaller tile, spills ",
                               next.binary.spill_bytes, " and is ", better ? "taken" : "not taken"));
      if (better) best = std::move(next);
    }
    return best;
  }

 private:
  const ops::Request& named_;
  const How& how_;
  const ops::Maker& op_;
  const arch::Target& target_;
  compile::Compiler& compiler_;
  const support::Settings& settings_;
  const support::Log& log_;
};

/// `named` is what the kernel is called, and `request` what it is chosen by.
Recording make_as(const ops::Request& named, const How& how, const ops::Maker& op, const ops::Request& request,
                  const arch::Target& target, compile::Compiler& compiler, const support::Settings& settings,
                  const support::Log& log) {
  Recording made;
  Artifact& artifact = made.artifact;
  KernelReport& report = artifact.report;
  report.name = named.name;
  report.target = target.name();

  const auto start = Clock::now();
  Choice choice = choose(op, request, *target.arch);  // refuses first what the op itself cannot: it knows where it runs
  require_primitives(target);
  report.schedule_ms = ms_since(start);

  const Builder builder(named, how, op, target, compiler, settings, log);
  Built built = builder.without_spills(builder.build(std::move(choice), report), request, report);
  made.choice = std::move(built.choice);
  made.unit = std::move(built.unit);
  compile::Binary& binary = built.binary;
  report.schedule_json = sched::to_json(made.choice.candidate.graph, made.choice.schedule);
  report.registers = binary.registers;
  for (const std::string& warning : binary.warnings)
    log(how.quick ? LogLevel::debug : LogLevel::warn,
        cat(named.name, " on ", target.name(), " is slower than it should be: ", warning));

  artifact.binary = std::move(binary.bytes);
  artifact.shape = made.unit.shape;
  artifact.geometry = op.geometry(request, made.choice.candidate);
  artifact.source_sha256 = source_hash(made.unit.text, headers_for(target, &op));
  artifact.compiler_version = compiler.version();
  artifact.quick = how.quick;
  return made;
}

}  // namespace

Artifact make(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
              compile::Compiler& compiler, const support::Settings& settings, const support::Log& log) {
  return make_as(request, {}, op, request, target, compiler, settings, log).artifact;
}

Artifact make_quick(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
                    compile::Compiler& compiler, const support::Settings& settings, const support::Log& log) {
  return make_as(request, {.emit = {}, .quick = true}, op, request, target, compiler, settings, log).artifact;
}

ops::Request recording_request(ops::Request request) {
  request.fields.emplace_back("record", "true");
  request.name += "_recording";
  return request;
}

Recording make_recording(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
                         compile::Compiler& compiler, const support::Settings& settings, const support::Log& log) {
  return make_as(recording_request(request), {.emit = {.record = true}}, op, request, target, compiler, settings, log);
}

}  // namespace tj
