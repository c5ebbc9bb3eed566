// The options of a runtime from their structure in tilejit.h.
#include "api/c_options.hpp"

#include "api/host_gate.hpp"
#include "support/c_structs.hpp"
#include "support/fail.hpp"

namespace tj::c_api {

using namespace support::c_structs;

namespace {

/// A function that is missing stays empty: the runtime refuses it by name.
Allocator to_allocator(const tj_options& o) {
  const auto c_device = [](Device device) { return tj_device{static_cast<std::int32_t>(device.kind), device.index}; };
  HostGate* const gate = HostGate::at(o.allocator_user);
  Allocator allocator;
  if (o.allocate != nullptr)
    allocator.allocate = [allocate = o.allocate, user = o.allocator_user, c_device, gate](
                             Device device, std::size_t bytes, Stream stream) {
      return through<void*>(gate, nullptr, [&] { return allocate(user, c_device(device), bytes, stream.handle); });
    };
  if (o.deallocate != nullptr)
    allocator.deallocate = [deallocate = o.deallocate, user = o.allocator_user, c_device, gate](
                               Device device, void* memory, std::size_t bytes, Stream stream) {
      if (const HostGate::Inside inside(gate); inside) deallocate(user, c_device(device), memory, bytes, stream.handle);
    };
  return allocator;
}

/// A number that no answer has is a failure.
RemoteAnswer to_answer(std::int32_t answer) {
  return answer == TJ_REMOTE_DONE || answer == TJ_REMOTE_ABSENT ? static_cast<RemoteAnswer>(answer)
                                                                : RemoteAnswer::failed;
}

std::int32_t take_piece(void* sink, const void* bytes, std::size_t count) {
  if (bytes == nullptr) return count == 0 ? 0 : 1;
  return (*static_cast<const RemoteSink*>(sink))({static_cast<const char*>(bytes), count}) ? 0 : 1;
}

Remote to_remote(const tj_remote* given) {
  tj_remote defaults{};
  defaults.size = sizeof(defaults);
  const tj_remote r = read(given, "options.remote", defaults);
  check_reserved(r.reserved, "options.remote.reserved");
  const auto asked = [gate = HostGate::at(r.user)](auto&& call) {
    return to_answer(through<std::int32_t>(gate, TJ_REMOTE_FAILED, call));
  };
  Remote remote;
  if (r.get != nullptr)
    remote.get = [r, asked](std::string_view name, const RemoteSink& sink) {
      return asked(
          [&] { return r.get(r.user, std::string(name).c_str(), take_piece, const_cast<RemoteSink*>(&sink)); });
    };
  if (r.put != nullptr)
    remote.put = [r, asked](std::string_view name, std::string_view bytes) {
      return asked([&] { return r.put(r.user, std::string(name).c_str(), bytes.data(), bytes.size()); });
    };
  if (r.has != nullptr)
    remote.has = [r, asked](std::string_view name) {
      return asked([&] { return r.has(r.user, std::string(name).c_str()); });
    };
  if (r.time_limit_s != 0) remote.time_limit_s = r.time_limit_s;
  if (r.sign_key != nullptr) remote.sign_key = r.sign_key;
  remote.trusted = to_enum<int>(r.trusted, 1, "options.remote.trusted", "0 (no), 1 (yes)") != 0;
  return remote;
}

/// -1: the environment says it, or nobody.
std::optional<std::uint64_t> to_bound(std::int64_t bytes, const char* name) {
  if (bytes < -1)
    support::fail(Stage::argument, Code::invalid_argument,
                  support::cat(name, " is ", bytes, "; allowed: -1 (default), 0 (no bound) or a number of bytes"));
  return bytes < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(bytes));
}

}  // namespace

Options to_options(const tj_options* given) {
  tj_options defaults;
  tj_options_init(&defaults);
  const tj_options o = given == nullptr ? defaults : read(given, "options", defaults);
  const auto set = [](std::optional<std::string>& field, const char* text) {
    if (text != nullptr) field = text;
  };
  Options options;
  set(options.cache_dir, o.cache_dir);
  set(options.target, o.target);
  set(options.dump_dir, o.dump_dir);
  set(options.hip_compiler, o.hip_compiler);
  set(options.record_file, o.record_file);
  set(options.pack_keys, o.pack_keys);
  set(options.facts_file, o.facts_file);
  options.cache_max_size_bytes = to_bound(o.cache_max_size_bytes, "options.cache_max_size_bytes");
  options.code_max_size_bytes = to_bound(o.code_max_size_bytes, "options.code_max_size_bytes");
  if (o.log_level != TJ_LOG_DEFAULT)
    options.log_level = to_enum<LogLevel>(o.log_level, TJ_LOG_OFF, "options.log_level", "-1 (default) to 5 (off)");
  options.use_disk_cache = to_enum<int>(o.use_disk_cache, 1, "options.use_disk_cache", "0 (no), 1 (yes)") != 0;
  check_reserved(o.reserved, "options.reserved");
  check_reserved(o.reserved2, "options.reserved2");
  if (o.on_miss != TJ_MISS_DEFAULT)
    options.on_miss = to_enum<MissPolicy>(o.on_miss, TJ_MISS_QUICK, "options.on_miss",
                                          "-1 (TJ_ON_MISS, else wait), 0 (wait), 1 (error), 2 (quick)");
  if (o.use_tuning != -1)
    options.use_tuning =
        to_enum<int>(o.use_tuning, 1, "options.use_tuning", "-1 (TJ_TUNE, else on), 0 (off), 1 (on)") != 0;
  if (o.wait_limit_s != -1)
    options.wait_limit_s = o.wait_limit_s;  // other negative ones, and no numbers, are refused with the rest
  if (o.compile_limit_s != -1) options.compile_limit_s = o.compile_limit_s;
  if (o.allocate != nullptr || o.deallocate != nullptr) options.allocator = to_allocator(o);
  if (o.remote != nullptr) options.remote = to_remote(o.remote);
  if (o.log_sink != nullptr)
    options.log_sink = [sink = o.log_sink, user = o.log_user, gate = HostGate::at(o.log_user)](LogLevel level,
                                                                                               std::string_view text) {
      if (const HostGate::Inside inside(gate); inside)
        sink(user, static_cast<std::int32_t>(level), text.data(), text.size());
    };
  return options;
}

}  // namespace tj::c_api
