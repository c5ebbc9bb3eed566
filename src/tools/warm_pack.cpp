// See warm_pack.hpp.
#include "tools/warm_pack.hpp"

#include <array>
#include <cstddef>
#include <ostream>
#include <utility>
#include <vector>

#include "cache/cache.hpp"
#include "support/atomic_file.hpp"
#include "support/fail.hpp"
#include "support/json.hpp"
#include "support/secret_file.hpp"
#include "support/signature.hpp"
#include "support/text.hpp"
#include "tools/command_line.hpp"
#include "tools/interrupts.hpp"
#include "tools/output_file.hpp"
#include "tools/own_compiler.hpp"
#include "tools/process.hpp"
#include "tools/warm.hpp"
#include "tools/warm_keep.hpp"

namespace tj::tools {
namespace {

using support::cat;
using support::Json;
using support::shown_path;

using Problems = std::vector<std::pair<std::string, std::string>>;

Json to_json(const Problems& problems) {
  Json list = Json::array();
  for (const auto& [path, problem] : problems) list.push_back({{"path", path}, {"problem", problem}});
  return list;
}

void print(const char* what, const Problems& problems, std::ostream& err) {
  stop_if_ending();  // files are refused then
  for (const auto& [path, problem] : problems)
    err << "tj-warm: " << what << ": " << support::one_line(path) << ": " << support::one_line(problem) << '\n';
}

[[noreturn]] void refuse(const char* flag, const std::string& path, const std::string& problem) {
  support::fail(Stage::argument, Code::invalid_argument, cat(flag, " is '", shown_path(path), "': ", problem));
}

support::SecretKey read_secret(const std::string& path) {
  std::string problem;
  const auto key = support::read_secret_key(path, &problem);
  if (!key) refuse("--sign", path, problem);
  return *key;
}

}  // namespace

int pack_cache(const std::string& path, const std::string& sign, const support::Settings& settings, bool json,
               std::ostream& out, std::ostream& err) {
  std::optional<support::SecretKey> secret;
  if (!sign.empty()) secret = read_secret(sign);
  const cache::Store store(settings.cache_dir, 0, {}, settings.pack_keys);
  const cache::PackReport report = store.pack(path, secret ? &*secret : nullptr);
  if (!report.problem.empty()) refuse("--pack", path, report.problem);
  const std::string signer = secret ? support::name_of(secret->public_key()) : std::string();
  if (json) {
    Json document = {
        {"pack", path}, {"entries", report.entries}, {"bytes", report.bytes}, {"left_out", to_json(report.left_out)}};
    if (secret) document["signed_by"] = signer;
    out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  } else {
    print("left out", report.left_out, err);
    out << report.entries << " entries, " << report.bytes << " bytes in " << shown_path(path)
        << (secret ? cat(", signed by the key ", signer, "...") : std::string()) << '\n';
  }
  return report.left_out.empty() ? kExitOk : kExitFailures;
}

int unpack_cache(const std::string& path, const support::Settings& settings, bool json, std::ostream& out,
                 std::ostream& err) {
  cache::Store store(settings.cache_dir, settings.cache_max_size_bytes, {}, settings.pack_keys);
  if (const std::string problem = store.cannot_keep(); !problem.empty()) {
    say_unusable(settings.cache_dir, problem, err);
    return kExitFailures;
  }
  cache::UnpackReport report = store.unpack(path);
  if (!report.problem.empty()) refuse("--unpack", path, report.problem);
  for (const auto& [entry, why] : report.gone)
    report.failed.emplace_back(entry, why.empty() ? cat("it ", why_gone(settings, "written", store.counts().evictions))
                                                  : cat("it cannot be read back: ", why));
  std::uint64_t of_others = 0;
  OwnCompilers own(settings);
  for (const auto& [made_for, kernels] : report.kernels)
    if (own.is_others(made_for.first, made_for.second)) of_others += kernels;
  if (json) {
    const Json document = {
        {"pack", path},          {"cache_dir", settings.cache_dir}, {"written", report.written},
        {"there", report.there}, {"of_other_compilers", of_others}, {"failed", to_json(report.failed)}};
    out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  } else {
    print("failed", report.failed, err);
    out << report.written << " entries written, " << report.there << " already in the cache, " << report.failed.size()
        << " failed; cache " << support::one_line(settings.cache_dir) << '\n';
    if (of_others > 0)
      out << of_others
          << " kernels serve nothing in a folder here, as another compiler made them than the one here; name the pack "
             "itself in TJ_CACHE_DIR\n";
  }
  return report.failed.empty() ? kExitOk : kExitFailures;
}

int make_key(const std::string& path, std::ostream& out) {
  std::string problem;
  const auto key = support::SecretKey::make(&problem);
  if (!key) refuse("--make-key", path, problem);
  // Both or none: a second try would be refused for the one that is there.
  const std::array<NewFile, 2> files = {
      {{path, key->line(), 0600}, {path + ".pub", support::line_of(key->public_key()), 0644}}};
  std::size_t which = 0;
  if (const int error = write_new_files(files, &which); error != 0)
    refuse("--make-key", files[which].path,
           error == EEXIST ? "it is there already, and keys are not replaced; give another name"
                           : support::errno_text(error));
  out << "secret key " << shown_path(path) << ", public key " << shown_path(path + ".pub") << ": "
      << support::name_of(key->public_key()) << "...\n";
  return kExitOk;
}

}  // namespace tj::tools
