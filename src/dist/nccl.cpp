// NCCL, opened at run time: its communicators send and receive.
//
// Decides how NCCL is found, what of it is needed, and the words for its errors. Knows no tensor. Invariant: no message
// is half handed over: a group of NCCL's calls is always closed.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#include "dist/transport.hpp"
#include "support/dynamic_library.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/lasting.hpp"
#include "support/patience.hpp"
#include "support/process_end.hpp"

namespace tj::dist {
namespace {

using support::cat;
using support::fail;

// Source: nccl.h of NCCL 2.28.
using Result = int;
using Comm = void*;
struct UniqueId {
  char bytes[128];
};
constexpr Result kSuccess = 0, kInProgress = 7;
constexpr int kInt8 = 0;
/// Sends and receives of one group, and errors that come later.
constexpr int kLeastVersion = 21000;
/// Addresses of other ranks' windows for the host. Source: nccl.h of NCCL 2.30, nccl_device/core.h.
constexpr int kLeastWithWindows = 22902, kSymmetric = 1;

/// Symmetric memory without it would be set up for NVLink multicast, too.
bool multicast_is_off() {
  const auto value = support::environment_variable("NCCL_NVLS_ENABLE");
  return value && *value == "0";
}

struct Api {
  std::string path;
  int version = 0;
  Result (*get_version)(int*) = nullptr;
  Result (*get_unique_id)(UniqueId*) = nullptr;
  Result (*comm_init_rank)(Comm*, int, UniqueId, int) = nullptr;
  Result (*comm_destroy)(Comm) = nullptr;
  Result (*comm_abort)(Comm) = nullptr;
  Result (*comm_cu_device)(Comm, int*) = nullptr;
  Result (*comm_count)(Comm, int*) = nullptr;
  Result (*comm_user_rank)(Comm, int*) = nullptr;
  Result (*comm_get_async_error)(Comm, Result*) = nullptr;
  const char* (*get_error_string)(Result) = nullptr;
  const char* (*get_last_error)(Comm) = nullptr;  ///< null: before 2.13
  Result (*group_start)() = nullptr;
  Result (*group_end)() = nullptr;
  Result (*send)(const void*, std::size_t, int, int, Comm, void*) = nullptr;
  Result (*receive)(void*, std::size_t, int, int, Comm, void*) = nullptr;
  // Null before 2.29.
  Result (*mem_alloc)(void**, std::size_t) = nullptr;
  Result (*mem_free)(void*) = nullptr;
  Result (*window_register)(Comm, void*, std::size_t, void**, int) = nullptr;
  Result (*window_deregister)(Comm, void*) = nullptr;
  Result (*get_peer_device_pointer)(void* window, std::size_t offset, int peer, void** out) = nullptr;

  bool has_windows() const {
    int now = 0;
    const bool has = mem_alloc != nullptr && mem_free != nullptr && window_register != nullptr &&
                     window_deregister != nullptr && get_peer_device_pointer != nullptr;
    return has && get_version(&now) == kSuccess && now >= kLeastWithWindows;
  }

  void check(Result result, const char* call, Comm comm) const {
    if (result == kSuccess || result == kInProgress) return;
    const char* last = get_last_error != nullptr ? get_last_error(comm) : nullptr;
    fail(Stage::launch, Code::driver_error,
         cat(call, " failed with ", get_error_string(result), " (", result, ")",
             last != nullptr && *last != '\0' ? cat(": ", last) : std::string(),
             "; NCCL_DEBUG=WARN says more; make a new communicator on all ranks"));
  }
};

template <class Function>
void find(const support::DynamicLibrary& library, Function*& function, const char* name, std::string& missing) {
  function = reinterpret_cast<Function*>(library.symbol(name));
  if (function == nullptr) missing = name;
}

Api open() {
  // The bare name first: a framework has loaded it, or the loader's path has it.
  std::string searched;
  auto library = support::DynamicLibrary::open_first({"libnccl.so.2"}, &searched);
  if (!library)
    fail(Stage::load, Code::not_found,
         cat("NCCL is missing: libnccl.so.2 does not open; install NCCL, or put its folder on LD_LIBRARY_PATH; tried ",
             searched));
  Api api;
  api.path = library->path();
  std::string missing, none;
  find(*library, api.get_version, "ncclGetVersion", missing);
  find(*library, api.get_unique_id, "ncclGetUniqueId", missing);
  find(*library, api.comm_init_rank, "ncclCommInitRank", missing);
  find(*library, api.comm_destroy, "ncclCommDestroy", missing);
  find(*library, api.comm_abort, "ncclCommAbort", missing);
  find(*library, api.comm_cu_device, "ncclCommCuDevice", missing);
  find(*library, api.comm_count, "ncclCommCount", missing);
  find(*library, api.comm_user_rank, "ncclCommUserRank", missing);
  find(*library, api.comm_get_async_error, "ncclCommGetAsyncError", missing);
  find(*library, api.get_error_string, "ncclGetErrorString", missing);
  find(*library, api.get_last_error, "ncclGetLastError", none);
  find(*library, api.group_start, "ncclGroupStart", missing);
  find(*library, api.group_end, "ncclGroupEnd", missing);
  find(*library, api.send, "ncclSend", missing);
  find(*library, api.receive, "ncclRecv", missing);
  find(*library, api.mem_alloc, "ncclMemAlloc", none);
  find(*library, api.mem_free, "ncclMemFree", none);
  find(*library, api.window_register, "ncclCommWindowRegister", none);
  find(*library, api.window_deregister, "ncclCommWindowDeregister", none);
  find(*library, api.get_peer_device_pointer, "ncclGetPeerDevicePointer", none);
  if (missing.empty()) api.check(api.get_version(&api.version), "ncclGetVersion", nullptr);
  if (!missing.empty() || api.version < kLeastVersion)
    fail(Stage::load, Code::unsupported,
         cat("NCCL at ", api.path, missing.empty() ? cat(" has version ", api.version) : cat(" has no ", missing),
             "; version 2.10 or newer is needed"));
  support::keep_open(std::move(library));
  return api;
}

const Api& nccl() {
  if (support::process_is_ending())
    fail(Stage::load, Code::unsupported, "the process is ending: NCCL is not opened any more");
  static constinit support::Lasting<const Api> api;
  return api.get(open);
}

/// Closes the group of calls when one of them throws.
class Calls {
 public:
  explicit Calls(const Api& api, Comm comm) : api_(api), comm_(comm) {
    api_.check(api_.group_start(), "ncclGroupStart", comm_);
  }
  ~Calls() {
    if (!ended_) api_.group_end();
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  void end() {
    ended_ = true;
    api_.check(api_.group_end(), "ncclGroupEnd", comm_);
  }

 private:
  const Api& api_;
  const Comm comm_;
  bool ended_ = false;
};

class Nccl final : public Transport {
 public:
  Nccl(const Api& api, Comm comm, bool owned, Device device, double wait_limit_s)
      : api_(api), comm_(comm), owned_(owned), wait_limit_s_(wait_limit_s) {
    try {
      settle("ncclCommInitRank");
      api_.check(api_.comm_user_rank(comm_, &rank_), "ncclCommUserRank", comm_);
      api_.check(api_.comm_count(comm_, &size_), "ncclCommCount", comm_);
      check_device(device);
    } catch (...) {
      let_go();
      throw;
    }
  }
  ~Nccl() override { let_go(); }
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }

  void exchange(std::span<const Send> sends, std::span<const Receive> receives, Stream stream) override {
    check();
    Calls calls(api_, comm_);
    for (const Send& each : sends)
      api_.check(api_.send(each.from, each.bytes, kInt8, each.to, comm_, stream.handle), "ncclSend", comm_);
    for (const Receive& each : receives)
      api_.check(api_.receive(each.to, each.bytes, kInt8, each.from, comm_, stream.handle), "ncclRecv", comm_);
    calls.end();
    settle("ncclGroupEnd");
  }
  bool apart() const noexcept override { return true; }
  bool may_have_windows() const noexcept override { return true; }
  std::shared_ptr<void> window_memory(std::size_t bytes) override {
    if (!api_.has_windows() || !multicast_is_off())
      fail(Stage::launch, Code::unsupported,
           "windows need NCCL 2.29.2 or newer, and 0 as NCCL_NVLS_ENABLE; handles of CUDA IPC serve without");
    void* memory = nullptr;
    api_.check(api_.mem_alloc(&memory, bytes), "ncclMemAlloc", comm_);
    return {memory, [this](void* pointer) {
              if (is_here()) api_.mem_free(pointer);
            }};
  }
  Window window(const std::shared_ptr<void>& memory, std::size_t bytes) override {
    void* handle = nullptr;
    const Result registered = api_.window_register(comm_, memory.get(), bytes, &handle, kSymmetric);
    Window window;
    window.own = {memory.get(), [this, handle, memory](void*) {
                    if (handle != nullptr && is_here() && !ended_) api_.window_deregister(comm_, handle);
                  }};
    api_.check(registered, "ncclCommWindowRegister", comm_);
    settle("ncclCommWindowRegister");
    window.of.assign(static_cast<std::size_t>(size_), nullptr);
    for (int rank = 0; rank < size_ && handle != nullptr; ++rank)
      api_.get_peer_device_pointer(handle, 0, rank, &window.of[static_cast<std::size_t>(rank)]);
    return window;
  }
  void check() override { api_.check(state(), "an earlier call of NCCL", comm_); }
  void give_up(std::string_view) noexcept override { failed_ = true; }
  void end() noexcept override { let_go(); }

 private:
  Result state() const {
    Result since = kSuccess;
    api_.check(api_.comm_get_async_error(comm_, &since), "ncclCommGetAsyncError", comm_);
    return since;
  }
  /// A communicator that does not block tells by its state when a call is done.
  void settle(const char* call) const {
    support::Patience patience(wait_limit_s_);
    Result since = state();
    for (; since == kInProgress && !patience.over(); since = state())
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (since == kInProgress)
      fail(
          Stage::launch, Code::driver_error,
          cat(call, " is not done after ", wait_limit_s_, " s (TJ_WAIT_LIMIT): a rank has not come; make a new group"));
    api_.check(since, call, comm_);
  }
  void check_device(Device device) const {
    if (device.kind != DeviceKind::cuda) return;
    int own = -1;
    api_.check(api_.comm_cu_device(comm_, &own), "ncclCommCuDevice", comm_);
    if (own != device.index)
      fail(Stage::argument, Code::invalid_argument,
           cat("device is ", to_string(device), " and the communicator's is cuda:", own,
               "; allowed: the same, so make the device current before the group or its communicator"));
  }
  /// A child of fork() and an ending process leave what NCCL has: its threads may be gone.
  bool is_here() const noexcept {
    return generation_ == support::process_generation() && !support::process_is_ending();
  }
  void let_go() noexcept {
    if (!owned_ || ended_ || !is_here()) return;
    ended_ = true;
    // Destroying waits for the other ranks, which may never come behind an error.
    failed_ ? api_.comm_abort(comm_) : api_.comm_destroy(comm_);
  }

  const Api& api_;
  const Comm comm_;
  const bool owned_;
  const double wait_limit_s_;
  const std::uint32_t generation_ = support::process_generation();
  bool failed_ = false, ended_ = false;
  int rank_ = 0, size_ = 0;
};

}  // namespace

std::string nccl_unique_id() {
  const Api& api = nccl();
  UniqueId id{};
  api.check(api.get_unique_id(&id), "ncclGetUniqueId", nullptr);
  return std::string(id.bytes, sizeof(id.bytes));
}

std::unique_ptr<Transport> nccl_by_id(std::string_view id, int rank, int size, Device device, double wait_limit_s) {
  UniqueId given{};
  if (id.size() != sizeof(given.bytes))
    fail(Stage::argument, Code::invalid_argument,
         cat("id has ", id.size(), " bytes; allowed: the ", sizeof(given.bytes), " of unique_id()"));
  std::memcpy(given.bytes, id.data(), sizeof(given.bytes));
  if (!multicast_is_off()) {
    const auto multicast = support::environment_variable("NCCL_NVLS_ENABLE");
    fail(Stage::launch, Code::unsupported,
         cat("NCCL_NVLS_ENABLE is ", multicast ? cat("'", *multicast, "'") : "not set",
             "; set it to 0 before the process's first communicator: NVLink multicast is not used here"));
  }
  const Api& api = nccl();
  Comm comm = nullptr;
  api.check(api.comm_init_rank(&comm, size, given, rank), "ncclCommInitRank", nullptr);
  return std::make_unique<Nccl>(api, comm, true, device, wait_limit_s);
}

std::unique_ptr<Transport> nccl_of(void* comm, Device device, double wait_limit_s) {
  if (comm == nullptr)
    fail(Stage::argument, Code::invalid_argument, "nccl_comm is null; allowed: an ncclComm_t that all ranks have made");
  return std::make_unique<Nccl>(nccl(), comm, false, device, wait_limit_s);
}

}  // namespace tj::dist
