// See remote.hpp.
#include "cache/remote.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "cache/directory.hpp"
#include "cache/format.hpp"
#include "cache/pack.hpp"
#include "cache/remote_format.hpp"
#include "support/fail.hpp"
#include "support/patience.hpp"
#include "support/process_end.hpp"
#include "support/secret_file.hpp"
#include "support/text.hpp"

namespace tj::cache {
namespace {

using support::cat;

constexpr int kFailuresInARow = 3;
constexpr std::chrono::seconds kFirstPause{30}, kLongestPause{600};
constexpr double kMostSeconds = 3600;
constexpr std::size_t kMaxValueBytes = static_cast<std::size_t>(kMaxFileBytes) + kRemoteHeaderBytes;

[[noreturn]] void refuse(const char* member, const std::string& why) {
  support::fail(Stage::argument, Code::invalid_argument, cat("Options::remote.", member, " ", why));
}

}  // namespace

/// A question to the store. The function may still work at it when nobody waits any more.
struct RemoteLayer::Call {
  std::atomic<bool> given_up{false};
  support::Bell bell;
  support::Mutex mutex;  ///< of what is below
  bool ended = false;
  RemoteAnswer answer = RemoteAnswer::failed;
  std::string thrown;
  std::string bytes;
  bool too_long = false;

  /// A piece, until the function has ended: who kept the sink is told that no more are wanted.
  bool take(std::string_view piece) {
    const std::lock_guard lock(mutex);
    if (ended) return false;
    too_long = too_long || piece.size() > kMaxValueBytes - bytes.size();
    if (too_long || given_up.load()) return false;
    bytes.append(piece);
    return true;
  }
  void end(RemoteAnswer said, std::string why) {
    {
      const std::lock_guard lock(mutex);
      answer = said;
      thrown = std::move(why);
      ended = true;
    }
    bell.ring();
  }
};

RemoteLayer::RemoteLayer(Remote functions, const std::string& keys_path, LogFunction log,
                         std::shared_ptr<support::Workers::Queue> queue)
    : functions_(std::make_shared<const Remote>(std::move(functions))), log_(std::move(log)), queue_(std::move(queue)) {
  const Remote& of = *functions_;
  std::string problem;
  if (!of.get && !of.put) refuse("get", "and put are empty; allowed: one of them, or both");
  if (!(of.time_limit_s > 0 && of.time_limit_s <= kMostSeconds))
    refuse("time_limit_s", cat("is ", of.time_limit_s, "; allowed: above 0, at most ", kMostSeconds, " seconds"));
  if (of.get && !of.trusted) {
    if (keys_path.empty())
      refuse("trusted",
             "is false, and there are no keys to check its values by; give Options::pack_keys "
             "(TJ_PACK_KEYS) a file of public keys, or say that the store is trusted");
    keys_ = read_public_keys(keys_path, &problem);
    if (!problem.empty())
      refuse("get", cat("needs the keys of '", support::shown_path(keys_path), "' (TJ_PACK_KEYS): ", problem));
  }
  if (of.sign_key.empty()) return;
  secret_ = support::read_secret_key(of.sign_key, &problem);
  if (!secret_) refuse("sign_key", cat("is '", support::shown_path(of.sign_key), "': ", problem));
}

RemoteAnswer RemoteLayer::ask(const char* function, const std::shared_ptr<Call>& call, Work work) {
  if (!may_ask()) return RemoteAnswer::failed;
  const auto task = [functions = functions_, call, work = std::move(work)] {
    RemoteAnswer answer = RemoteAnswer::failed;
    std::string thrown;
    const auto gone = [&call] { call->end(RemoteAnswer::failed, "it calls exit()"); };
    const support::IfExitComes if_exit_comes(gone);
    support::IfExitComes::in_users_function();
    try {
      if (!call->given_up.load()) answer = work(*functions, *call);
    } catch (const std::exception& error) {
      thrown = error.what();
    } catch (abi::__forced_unwind&) {  // by pthread_exit() in the user's function
      call->end(RemoteAnswer::failed, "its thread ends");
      throw;
    } catch (...) {
      thrown = "it threw something that is no std::exception";
    }
    call->end(answer, std::move(thrown));
  };
  try {
    const auto left_out = [call] { call->end(RemoteAnswer::failed, "was not begun"); };
    if (!queue_->add(task, left_out)) return RemoteAnswer::failed;  // the runtime ends
  } catch (const Error& error) {
    failed(error.message);
    return RemoteAnswer::failed;
  }
  support::Patience patience(functions_->time_limit_s);
  for (;;) {
    const std::uint32_t before = call->bell.rung();
    {
      const std::lock_guard lock(call->mutex);
      if (call->ended) break;
    }
    if (patience.over()) {
      call->given_up.store(true);
      failed(cat(function, " took longer than ", functions_->time_limit_s, " s"));
      return RemoteAnswer::failed;
    }
    call->bell.wait(before, patience.step(std::chrono::seconds(1)));
  }
  const bool known = call->answer == RemoteAnswer::done || call->answer == RemoteAnswer::absent;
  if (known) return call->answer;
  failed(cat(function, " failed", call->thrown.empty() ? "" : ": ", support::one_line(call->thrown)));
  return RemoteAnswer::failed;
}

bool RemoteLayer::may_ask() {
  const std::lock_guard lock(mutex_);
  if (std::chrono::steady_clock::now() >= left_alone_until_) return true;
  ++counts_.skipped;
  return false;
}

void RemoteLayer::failed(const std::string& why) {
  count([](RemoteCounts& counts) { ++counts.failures; });
  strike(why, false);
}

/// Values that are not right count as failures in a row: a store that lies is of no more use than one that fails.
void RemoteLayer::reject(const std::string& name, const std::string& why) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    ++counts_.rejected;
    refused_.insert(name);
    first = !std::exchange(warned_of_values_, true);
  }
  strike(cat("the value of ", name, " is not used: ", why, ". The kernel is made here"), first);
}

void RemoteLayer::strike(const std::string& why, bool warns) {
  std::int64_t pause_s = 0;
  {
    const std::lock_guard lock(mutex_);
    if (++failures_in_a_row_ >= kFailuresInARow) {
      pause_ = pause_.count() == 0 ? kFirstPause : std::min(2 * pause_, kLongestPause);
      left_alone_until_ = std::chrono::steady_clock::now() + pause_;
      pause_s = pause_.count();
      warns = !std::exchange(warned_, true) || warns;
    }
  }
  const std::string next =
      pause_s > 0 ? cat("; it is left alone for ", pause_s, " s, and kernels are made here") : std::string();
  if (log_) log_(warns ? LogLevel::warn : LogLevel::debug, cat("remote store: ", why, next));
}

void RemoteLayer::answered() {
  bool again = false;
  {
    const std::lock_guard lock(mutex_);
    again = pause_.count() != 0;
    failures_in_a_row_ = 0;
    pause_ = {};
  }
  if (again && log_) log_(LogLevel::info, "remote store: it answers again");
}

std::optional<Entry> RemoteLayer::get(const Key& key, const Judge& serves) {
  if (!functions_->get || key.compiler_hex.empty() || !is_well_formed(key)) return std::nullopt;
  const std::string name = file_name(key);
  const auto call = std::make_shared<Call>();
  const RemoteAnswer answer = ask("get", call, [name, call](const Remote& store, Call&) {
    return store.get(name, [call](std::string_view piece) { return call->take(piece); });
  });
  if (answer == RemoteAnswer::failed) return std::nullopt;
  if (answer == RemoteAnswer::absent) {
    answered();
    count([](RemoteCounts& counts) { ++counts.misses; });
    return std::nullopt;
  }
  std::string problem;
  if (call->too_long) problem = cat("it has more than ", kMaxValueBytes, " bytes");
  const auto bytes =
      problem.empty() ? read_remote(name, call->bytes, functions_->trusted ? nullptr : &keys_, &problem) : std::nullopt;
  auto entry = bytes ? decode(*bytes, &key, &problem) : std::nullopt;
  if (entry && serves(*entry, &problem)) {
    answered();
    count([&](RemoteCounts& counts) {
      ++counts.hits;
      counts.bytes_read += call->bytes.size();
    });
    return entry;
  }
  reject(name, problem);
  return std::nullopt;
}

void RemoteLayer::put(const Key& key, const Entry& entry) {
  if (!functions_->put || (!functions_->trusted && !secret_) || key.compiler_hex.empty() || !is_well_formed(key))
    return;
  const std::string name = file_name(key);
  bool replaces = false;
  {
    const std::lock_guard lock(mutex_);
    replaces = refused_.erase(name) != 0;
  }
  if (functions_->has && !replaces) {
    const RemoteAnswer there =
        ask("has", std::make_shared<Call>(), [name](const Remote& store, Call&) { return store.has(name); });
    if (there != RemoteAnswer::failed) answered();
    if (there != RemoteAnswer::absent) return;
  }
  const auto value =
      std::make_shared<const std::string>(encode_remote(name, encode(key, entry), secret_ ? &*secret_ : nullptr));
  const RemoteAnswer answer = ask("put", std::make_shared<Call>(),
                                  [name, value](const Remote& store, Call&) { return store.put(name, *value); });
  if (answer != RemoteAnswer::failed) answered();
  if (answer == RemoteAnswer::done)
    count([&](RemoteCounts& counts) {
      ++counts.puts;
      counts.bytes_written += value->size();
    });
}

RemoteCounts RemoteLayer::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace tj::cache
