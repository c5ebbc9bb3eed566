// See model_reports.hpp.
#include "model_reports.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

#include "model/model.hpp"
#include "support/atomic_file.hpp"
#include "support/fail.hpp"
#include "support/file_descriptor.hpp"
#include "support/fork_safe.hpp"
#include "support/json.hpp"
#include "support/text.hpp"

namespace tj {
namespace {

using support::cat;
using support::Json;

/// A kernel with what it says of itself.
class Noted final : public launch::Kernel {
 public:
  explicit Noted(std::shared_ptr<launch::Kernel> inner) : inner_(std::move(inner)) {
    const std::string_view text = inner_->notes_text();
    if (text.empty()) return;
    const Json notes = support::parse_shallow(text, false);
    if (!notes.is_object()) return;
    name = notes.value("name", std::string());
    for (const auto& site : notes.value("sites", Json::array()))
      sites.push_back({{"id", site.value("id", 0)},
                       {"kind", site.value("kind", std::string())},
                       {"text", site.value("text", std::string())}});
  }
  std::size_t params_bytes() const noexcept override { return inner_->params_bytes(); }
  std::string_view notes_text() const noexcept override { return inner_->notes_text(); }
  const launch::Kernel& inner() const { return *inner_; }

  std::string name;
  Json sites = Json::array();
  mutable bool reported = false;  ///< under the driver's mutex

 private:
  std::shared_ptr<launch::Kernel> inner_;
};

const Noted& noted(const launch::Kernel& kernel) { return static_cast<const Noted&>(kernel); }

class ReportingModel final : public launch::Driver {
 public:
  ReportingModel(const support::ModelSettings& settings, support::Log log) : settings_(settings), log_(std::move(log)) {
    for (const support::SiteName& site : settings.disabled) unknown_.push_back({"TJ_MODEL_DISABLE", site});
    for (const support::SiteName& site : settings.weakened) unknown_.push_back({"TJ_MODEL_WEAKEN", site});
    if (settings.report.empty()) return;
    file_ = support::open_to_append(settings.report, 0600);
    if (!file_)
      support::fail(Stage::argument, Code::invalid_argument,
                    cat("TJ_MODEL_REPORT (Options::model_report) is '", support::shown_path(settings.report),
                        "': ", support::errno_text(errno), "; allowed: a file that can be made or appended to"));
  }

  std::shared_ptr<launch::Kernel> load(int device, std::string_view bytes, const std::string& symbol,
                                       std::int64_t smem_bytes) override {
    auto kernel = std::make_shared<Noted>(model_->load(device, bytes, symbol, smem_bytes));
    say_unknown(*kernel);
    return kernel;
  }
  void launch(int device, const launch::Kernel& kernel, const launch::LaunchConfig& config, const void* params,
              std::size_t params_bytes, Stream stream) override {
    std::string unwritten;
    try {
      const std::lock_guard lock(mutex_);
      prepare(noted(kernel));
      try {
        model_->launch(device, noted(kernel).inner(), config, params, params_bytes, stream);
      } catch (const Error& e) {
        if (e.stage == Stage::model) unwritten = append_finding(noted(kernel).name, e);
        throw;
      }
    } catch (const Error&) {
      if (!unwritten.empty()) log_(LogLevel::warn, unwritten);  // a sink may call the runtime, or exit()
      throw;
    }
  }
  unsigned resident_clusters(int device, const launch::Kernel& kernel, const launch::LaunchConfig& config) override {
    return model_->resident_clusters(device, noted(kernel).inner(), config);
  }

  int device_count() override { return model_->device_count(); }
  launch::DeviceInfo device_info(int device) override { return model_->device_info(device); }
  void encode_tensor_maps(int device, std::span<const launch::TensorMapPlace> maps) override {
    model_->encode_tensor_maps(device, maps);
  }
  void move_tensor_maps(int device, std::span<const launch::MovedTensorMap> maps) override {
    model_->move_tensor_maps(device, maps);
  }
  bool capturing(int device, Stream stream) override { return model_->capturing(device, stream); }
  std::shared_ptr<void> allocate(int device, std::size_t bytes) override { return model_->allocate(device, bytes); }
  std::shared_ptr<void> scratch(int device, std::size_t bytes, Stream stream) override {
    return model_->scratch(device, bytes, stream);
  }
  void zero(int device, void* memory, std::size_t bytes, Stream stream) override {
    model_->zero(device, memory, bytes, stream);
  }
  void copy(int device, void* dst, bool dst_on_device, const void* src, bool src_on_device,
            std::size_t bytes) override {
    model_->copy(device, dst, dst_on_device, src, src_on_device, bytes);
  }
  void synchronize(int device, Stream stream) override { model_->synchronize(device, stream); }
  double time_ms(int device, const std::function<void()>& work) override { return model_->time_ms(device, work); }
  std::shared_ptr<launch::Recording> record(int device, const std::function<void(Stream)>& work) override {
    return model_->record(device, work);
  }

 private:
  struct Wanted {
    const char* variable;
    support::SiteName site;
    bool said = false;
  };
  /// A site that no kernel has changes nothing, and nobody would notice. A program may load the kernel with the site
  /// later: then the warning was wrong, and says "so far".
  void say_unknown(const Noted& kernel) {
    std::string words;
    {
      const std::lock_guard lock(unknown_mutex_);
      std::erase_if(unknown_, [&](const Wanted& wanted) { return has_site(kernel, wanted.site); });
      for (Wanted& wanted : unknown_)
        if (!std::exchange(wanted.said, true))
          words +=
              cat(words.empty() ? "" : "; ", wanted.variable, " has '", support::shown(support::to_string(wanted.site)),
                  "', a site that no kernel has so far: ", kernel.name, " has ", kernel.sites.size(),
                  " sites (tj-check --list-sites lists them)");
    }
    if (!words.empty()) log_(LogLevel::warn, words);  // a sink may call the runtime
  }
  static bool has_site(const Noted& kernel, const support::SiteName& wanted) {
    if (!wanted.kernel.empty() && wanted.kernel != kernel.name) return false;
    return std::any_of(kernel.sites.begin(), kernel.sites.end(),
                       [&](const Json& site) { return site.at("id") == wanted.id; });
  }
  static std::vector<int> sites_of(const std::vector<support::SiteName>& sites, const std::string& kernel) {
    std::vector<int> ids;
    for (const support::SiteName& site : sites)
      if (site.kernel.empty() || site.kernel == kernel) ids.push_back(site.id);
    return ids;
  }
  void prepare(const Noted& kernel) {
    if (!std::exchange(kernel.reported, true)) append({{"kernel", kernel.name}, {"sites", kernel.sites}});
    model::ModelOptions options;
    options.seed = settings_.seed;
    options.disabled_sites = sites_of(settings_.disabled, kernel.name);
    options.weakened_sites = sites_of(settings_.weakened, kernel.name);
    model_->set_options(std::move(options));
  }
  /// The finding itself matters more than that it could not be written: then the reason is returned, for the log.
  std::string append_finding(const std::string& kernel, const Error& finding) {
    try {
      append({{"finding", kernel},
              {"code", to_string(finding.code)},
              {"message", finding.message},
              {"log", finding.log},
              {"seed", settings_.seed}});
    } catch (const Error& e) {
      return e.message;
    }
    return {};
  }

  void append(const Json& line) {
    if (!file_) return;
    const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (const int error = support::write_all(file_.get(), text); error != 0)
      support::fail(Stage::model, Code::io,
                    cat("TJ_MODEL_REPORT: ", support::shown_path(settings_.report),
                        " cannot be written: ", support::errno_text(error), "; ",
                        support::next_step(error, "name a file on a disk with room")));
  }

  const support::ModelSettings settings_;
  const support::Log log_;
  support::Mutex unknown_mutex_;
  std::vector<Wanted> unknown_;  ///< sites that no loaded kernel has
  support::FileDescriptor file_;
  std::shared_ptr<model::ModelDriver> model_ = model::open_model_driver();
  support::Turn mutex_;  ///< for a whole launch
};

}  // namespace

std::shared_ptr<launch::Driver> open_reporting_model(const support::ModelSettings& settings, const support::Log& log) {
  return std::make_shared<ReportingModel>(settings, log);
}

}  // namespace tj
