// See kernels.hpp.
#include "check/kernels.hpp"

#include "codegen/emit.hpp"

namespace tj::check {

Kernels::Kernels(const support::Settings& settings, arch::Target target, support::Log log)
    : settings_(settings),
      target_(target),
      log_(std::move(log)),
      compiler_(compile::make_compiler("host", {{}, {}, settings.compile_limit_s})) {
  if (settings_.use_disk_cache)
    store_ = std::make_unique<cache::Store>(settings_.cache_dir, settings_.cache_max_size_bytes,
                                            [this](LogLevel level, std::string_view text) { log_(level, text); });
}

Artifact Kernels::artifact_of(const ops::Op& op, const ops::Request& request) {
  const cache::Key key = key_of(request, target_, *compiler_);
  if (store_ != nullptr)
    if (const auto entry = store_->load(key))
      if (auto artifact = from_entry(*entry, op)) return std::move(*artifact);
  Artifact made = make(op, request, target_, *compiler_, settings_, log_);
  if (store_ != nullptr) store_->store(key, to_entry(made, op));
  return made;
}

const Kernel& Kernels::get(const ops::Op& op, const ops::Request& request) {
  const std::lock_guard lock(mutex_);
  if (const auto found = kernels_.find(request.name); found != kernels_.end()) return found->second;
  const Artifact artifact = artifact_of(op, request);
  Kernel kernel;
  kernel.name = request.name;
  kernel.op = &op;
  kernel.request = request;
  kernel.loaded = driver_->load(0, artifact.binary, artifact.shape.symbol, artifact.shape.smem_bytes);
  kernel.shape = artifact.shape;
  kernel.waits_itself = target_.arch->overlapped_launch;
  kernel.geometry = artifact.geometry;
  kernel.sites = sites_of(kernel.loaded->notes_text());
  return kernels_.emplace(request.name, std::move(kernel)).first->second;
}

const Choice& Kernels::choice_of(const Kernel& kernel) {
  const std::lock_guard lock(choices_mutex_);
  auto& kept = choices_[kernel.name];
  if (!kept) kept = std::make_unique<Choice>(choose(*kernel.op, kernel.request, *target_.arch));
  return *kept;
}

std::string Kernels::text_of(const Kernel& kernel) {
  const Choice& choice = choice_of(kernel);
  return codegen::emit(choice.candidate.graph, choice.schedule, target_.arch->primitives).text;
}

std::shared_ptr<launch::Kernel> Kernels::compile(const Kernel& kernel, const std::string& text) {
  compile::Job job;
  job.name = kernel.name + ".cpp";
  job.text = text;
  job.headers = headers_for(target_, kernel.op);
  job.arch = target_.arch->compiler_name();
  for (const std::string& definition : choice_of(kernel).candidate.definitions)
    job.options.push_back("-D" + definition);
  return driver_->load(0, compiler_->compile(job).bytes, kernel.shape.symbol, kernel.shape.smem_bytes);
}

}  // namespace tj::check
