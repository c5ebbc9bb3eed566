// See kernels.hpp.
#include "check/kernels.hpp"

#include "codegen/emit.hpp"

namespace tj::check {

namespace {

/// The target comes from the caller, not from the environment.
support::Settings without_target(support::Settings settings) {
  settings.target.clear();
  return settings;
}

}  // namespace

Kernels::Kernels(const support::Settings& settings, arch::Target target, support::Log log)
    : settings_(without_target(settings)),
      target_(target),
      log_(std::move(log)),
      store_(!settings_.use_disk_cache
                 ? nullptr
                 : std::make_unique<cache::Store>(
                       settings_.cache_dir, settings_.cache_max_size_bytes,
                       [this](LogLevel level, std::string_view text) { log_(level, text); }, settings_.pack_keys)),
      backends_(settings_, log_),
      maker_(settings_, log_, backends_, store_.get()) {}

const Kernel& Kernels::get(const ops::Op& op, const ops::Request& request) {
  const std::lock_guard lock(mutex_);
  if (const auto found = kernels_.find(request.name); found != kernels_.end()) return found->second;
  Kernel kernel;
  kernel.name = request.name;
  kernel.op = &op;
  kernel.request = request;
  kernel.loaded = maker_.load(op, request, target_, driver_, 0, maker_.get(op, request, target_));
  kernel.sites = sites_of(kernel.loaded->kernel->notes_text());
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
  return driver_->load(0, backends_.compiler(target_).compile(job).bytes, kernel.loaded->shape.symbol,
                       kernel.loaded->shape.smem_bytes);
}

}  // namespace tj::check
