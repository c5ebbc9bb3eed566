// NCCL between threads of one process: libnccl.so.2 for tests of who calls it how.
//
// Exports the calls that tilejit uses, by the names of nccl.h. Copies host memory when all ranks have closed a group of
// calls; the n-th receive from a rank gets its n-th send. Steered through fake_nccl_control.h.
#include "fake_nccl_control.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr int kSystemError = 2, kInvalidUsage = 5, kInProgress = 7;

struct UniqueId {
  char bytes[128];
};
struct Message {
  int peer;
  const void* from;
  void* to;
  std::size_t bytes;
};
/// Ranks of one id.
struct World {
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0;
  std::vector<std::vector<Message>> sends;
  std::vector<int> come, copied;
  std::vector<void*> windows;  ///< registered last, of each rank
  int registered = 0;
};
struct Comm {
  std::shared_ptr<World> world;
  int rank = 0, size = 0;
  std::vector<Message> sends, receives;
};
struct State {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<World>> worlds;
  std::string fails, fails_once;
  std::atomic<void (*)(void*)> abort_hook = nullptr;
  std::atomic<void*> abort_user = nullptr;
  std::atomic<int> alone{0}, async{0}, version{22809}, comms{0}, windows{0}, groups{0}, ids{0}, aborts{0}, busy{0};
};
State& state() {
  static auto* const instance = new State;  // outlives every static destructor of the tests
  return *instance;
}
thread_local int depth = 0;
thread_local std::vector<Comm*> of_group;

bool fails(const char* call) {
  const std::lock_guard lock(state().mutex);
  if (state().fails_once == call) {
    state().fails_once.clear();
    return true;
  }
  return state().fails == call;
}

int exchange(Comm& comm) {
  World& world = *comm.world;
  std::unique_lock lock(world.mutex);
  const auto rank = static_cast<std::size_t>(comm.rank);
  const auto all = [&](const std::vector<int>& counts, int wanted) {
    for (const int count : counts)
      if (count < wanted) return false;
    return true;
  };
  world.sends[rank] = comm.sends;
  const int number = ++world.come[rank];
  world.changed.notify_all();
  world.changed.wait(lock, [&] { return all(world.come, number); });
  std::map<int, std::size_t> taken;
  int result = 0;
  for (const Message& receive : comm.receives) {
    std::size_t skip = taken[receive.peer]++;
    bool found = false;
    for (const Message& send : world.sends[static_cast<std::size_t>(receive.peer)]) {
      if (send.peer != comm.rank || skip-- != 0) continue;
      found = send.bytes == receive.bytes;
      if (found) std::memcpy(receive.to, send.from, send.bytes);
      break;
    }
    if (!found) result = kInvalidUsage;
  }
  world.copied[rank] = number;
  world.changed.notify_all();
  world.changed.wait(lock, [&] { return all(world.copied, number); });
  comm.sends.clear();
  comm.receives.clear();
  return result;
}

}  // namespace

extern "C" {

void fake_nccl_reset(void) {
  fake_nccl_fail(nullptr);
  fake_nccl_fail_once(nullptr);
  state().async = 0;
  state().busy = 0;
  state().aborts = 0;
  state().alone = 0;
  state().abort_hook = nullptr;
  state().version = 22809;
}
void fake_nccl_fail(const char* call) {
  const std::lock_guard lock(state().mutex);
  state().fails = call != nullptr ? call : "";
}
void fake_nccl_fail_once(const char* call) {
  const std::lock_guard lock(state().mutex);
  state().fails_once = call != nullptr ? call : "";
}
void fake_nccl_on_abort(void (*hook)(void*), void* user) {
  state().abort_user = user;
  state().abort_hook = hook;
}
int fake_nccl_alone(void) { return state().alone; }
void fake_nccl_set_async(int error) { state().async = error; }
void fake_nccl_set_version(int version) { state().version = version; }
void fake_nccl_set_busy(int times) { state().busy = times; }
int fake_nccl_aborts(void) { return state().aborts; }
int fake_nccl_comms(void) { return state().comms; }
int fake_nccl_windows(void) { return state().windows; }
int fake_nccl_open_groups(void) { return state().groups; }

int ncclGetVersion(int* version) {
  *version = state().version;
  return 0;
}
int ncclGetUniqueId(UniqueId* id) {
  if (fails("ncclGetUniqueId")) return kSystemError;
  *id = {};
  const std::string text = "id " + std::to_string(++state().ids);
  std::memcpy(id->bytes, text.data(), text.size());
  return 0;
}
int ncclCommInitRank(void** comm, int size, UniqueId id, int rank) {
  if (fails("ncclCommInitRank")) return kSystemError;
  std::shared_ptr<World> world;
  {
    const std::lock_guard lock(state().mutex);
    auto& found = state().worlds[std::string(id.bytes, sizeof(id.bytes))];
    if (!found) {
      found = std::make_shared<World>();
      found->sends.resize(static_cast<std::size_t>(size));
      found->come.resize(static_cast<std::size_t>(size));
      found->copied.resize(static_cast<std::size_t>(size));
      found->windows.resize(static_cast<std::size_t>(size));
    }
    world = found;
  }
  std::unique_lock lock(world->mutex);
  ++world->joined;
  world->changed.notify_all();
  world->changed.wait(lock, [&] { return world->joined >= size; });
  ++state().comms;
  *comm = new Comm{world, rank, size, {}, {}};
  return 0;
}
int ncclCommDestroy(void* comm) {
  delete static_cast<Comm*>(comm);
  --state().comms;
  return 0;
}
int ncclCommAbort(void* comm) {
  ++state().aborts;
  if (const auto hook = state().abort_hook.load()) hook(state().abort_user);
  return ncclCommDestroy(comm);
}
int ncclCommCount(void* comm, int* count) {
  *count = static_cast<Comm*>(comm)->size;
  return 0;
}
int ncclCommUserRank(void* comm, int* rank) {
  *rank = static_cast<Comm*>(comm)->rank;
  return 0;
}
int ncclCommCuDevice(void*, int* device) {
  *device = 0;
  return 0;
}
int ncclCommGetAsyncError(void*, int* error) {
  *error = state().busy > 0 && state().busy-- > 0 ? kInProgress : state().async.load();
  return 0;
}
const char* ncclGetErrorString(int result) { return result == kSystemError ? "unhandled system error" : "an error"; }
const char* ncclGetLastError(void*) { return "the fake's last word"; }
int ncclGroupStart(void) {
  if (fails("ncclGroupStart")) return kSystemError;
  ++depth;
  ++state().groups;
  return 0;
}
int ncclGroupEnd(void) {
  --depth;
  --state().groups;
  std::vector<Comm*> comms;
  comms.swap(of_group);
  if (fails("ncclGroupEnd")) return kSystemError;
  for (Comm* comm : comms)
    if (const int result = exchange(*comm)) return result;
  return 0;
}
static int add(void* comm, const Message& message, bool sends) {
  auto* const of = static_cast<Comm*>(comm);
  if (depth == 0) return kInvalidUsage;
  if (of->sends.empty() && of->receives.empty()) of_group.push_back(of);
  (sends ? of->sends : of->receives).push_back(message);
  return 0;
}
int ncclSend(const void* from, std::size_t count, int, int peer, void* comm, void*) {
  return fails("ncclSend") ? kSystemError : add(comm, {peer, from, nullptr, count}, true);
}
int ncclRecv(void* to, std::size_t count, int, int peer, void* comm, void*) {
  return fails("ncclRecv") ? kSystemError : add(comm, {peer, nullptr, to, count}, false);
}

int ncclMemAlloc(void** memory, std::size_t bytes) {
  if (fails("ncclMemAlloc")) return kSystemError;
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return 0;
}
int ncclMemFree(void* memory) {
  std::free(memory);
  return 0;
}
/// A window is what its ranks have registered together.
int ncclCommWindowRegister(void* comm, void* memory, std::size_t, void** window, int flags) {
  if (fails("ncclCommWindowRegister")) return kSystemError;
  if (flags != 1) return kInvalidUsage;
  auto* const of = static_cast<Comm*>(comm);
  std::unique_lock lock(of->world->mutex);
  of->world->windows[static_cast<std::size_t>(of->rank)] = memory;
  const int number = ++of->world->registered;
  const int all = (number + of->size - 1) / of->size * of->size;
  of->world->changed.notify_all();
  constexpr std::chrono::seconds kLong(5);  // the real one waits for good
  if (!of->world->changed.wait_for(lock, kLong, [&] { return of->world->registered >= all; })) {
    --of->world->registered;
    ++state().alone;
    return kSystemError;
  }
  ++state().windows;
  *window = new std::vector<void*>(of->world->windows);
  return 0;
}
int ncclCommWindowDeregister(void*, void* window) {
  --state().windows;
  delete static_cast<std::vector<void*>*>(window);
  return 0;
}
int ncclGetPeerDevicePointer(void* window, std::size_t offset, int peer, void** out) {
  *out = fails("ncclGetPeerDevicePointer")
             ? nullptr
             : static_cast<char*>((*static_cast<std::vector<void*>*>(window))[static_cast<std::size_t>(peer)]) + offset;
  return 0;
}

}  // extern "C"
