// The calls of a unit: from plain C into the block of the calling thread.
//
// Decides that a disabled site does nothing and that no exception crosses a unit's frames. A fault is kept, the thread
// is left where it is, and the launch throws. Invariant: called on a fiber of the model only.
#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <type_traits>

#include "model/cluster.hpp"
#include "model/global_memory.hpp"
#include "model/link_port.hpp"
#include "model/warp_matrix.hpp"
#include "model/wave_matrix.hpp"
#include "support/fail.hpp"

namespace tj::model {
namespace {

template <class Work>
auto guarded(Work&& work) -> std::invoke_result_t<Work, Thread&, Block&> {
  Thread& thread = *current_thread();
  std::exception_ptr error;
  try {
    return work(thread, *thread.block);
  } catch (...) {
    error = std::current_exception();
  }
  // Not inside the handler: what it keeps for this OS thread must not outlive a switch.
  thread.block->scheduler.abandon(thread, std::move(error));
}

/// Counting may need memory, so that it is guarded, too.
template <class Work>
void at_site(int site, Work&& work) {
  Block& block = *current_thread()->block;
  if (block.launch.off(site)) return;
  guarded([&](Thread& t, Block& b) { b.count(site), work(t, b); });
}

// A wait for groups that is weakened leaves one more under way.
int more(const Block& block, int site) { return block.launch.weak(site) ? 1 : 0; }

const tj_model_thread* self() { return &current_thread()->self; }

std::uint32_t meet_warp(WarpUnit::Kind kind, std::uint32_t value, std::uint32_t operand) {
  return guarded([=](Thread& t, Block& b) { return b.warps[t.warp()].meet(b.scheduler, t, kind, value, operand); });
}
void block_sync(int site) {
  at_site(site, [=](Thread& t, Block& b) { b.named.sync_block(t, site); });
}
void warp_sync(int site) {
  at_site(site, [](Thread& t, Block& b) { b.warps[t.warp()].meet(b.scheduler, t, WarpUnit::Kind::sync, 0, 0); });
}
unsigned shuffle(unsigned bits, unsigned lane) { return meet_warp(WarpUnit::Kind::shuffle, bits, lane); }
unsigned shuffle_xor(unsigned bits, unsigned mask) { return meet_warp(WarpUnit::Kind::shuffle_xor, bits, mask); }
int any_in_warp(int value) {
  return static_cast<int>(meet_warp(WarpUnit::Kind::any, static_cast<std::uint32_t>(value), 0));
}

void named_barrier(int site, unsigned id, unsigned threads, int wait) {
  at_site(site, [=](Thread& t, Block& b) { b.named.meet(t, site, id, threads, wait != 0 && !b.launch.weak(site)); });
}

void mbarrier_init(unsigned barrier, unsigned arrivals) {
  guarded([=](Thread& t, Block& b) { b.mbarriers.init(t, barrier, arrivals); });
}
void mbarrier_init_done(int site) {
  at_site(site, [](Thread& t, Block& b) { b.mbarriers.init_done(t); });
}
void mbarrier_arrive(int site, unsigned barrier) {
  at_site(site, [=](Thread& t, Block& b) { b.mbarriers.arrive(t, barrier); });
}
void mbarrier_expect(int site, unsigned barrier, unsigned bytes) {
  at_site(site, [=](Thread& t, Block& b) { b.mbarriers.expect(t, barrier, b.launch.weak(site) ? bytes / 2 : bytes); });
}
int mbarrier_wait(int site, unsigned barrier, unsigned phase, int how) {
  bool over = how != TJ_MODEL_ASK;
  at_site(site, [&](Thread& t, Block& b) {
    if (over)
      b.mbarriers.wait(t, site, barrier, phase, how == TJ_MODEL_NUMBER);
    else
      over = !b.launch.weak(site) && b.mbarriers.done(t, barrier, phase);
  });
  return over ? 1 : 0;
}
void proxy_fence(int site) {
  at_site(site, [](Thread& t, Block& b) {
    b.monitor.order.proxy_fence(t.actor);
    if (GlobalMemory* const global = b.cluster.global()) global->proxy_fence(t);
  });
}
void reads_arrived(int site) {
  at_site(site, [](Thread& t, Block& b) { b.monitor.order.reads_arrived(t.actor); });
}
void registers(int site, int registers, int grow) {
  at_site(site, [=](Thread& t, Block& b) { b.registers.set(t, site, registers, grow != 0); });
}
void grids_before(int site) {
  at_site(site, [](Thread& t, Block&) { t.grids_waited_for = true; });
}
void at_node(int call, int iteration) {
  guarded([=](Thread& t, Block& b) { b.enter_node(t, call, iteration); });
}
unsigned clock() { return static_cast<unsigned>(current_thread()->block->scheduler.step()); }
/// The PTX manual leaves open which lane it is, and promises the same one for the same lanes. Each seed draws one for
/// each warp of a block, and a kernel that takes it for lane 0 is found out.
int elect() {
  meet_warp(WarpUnit::Kind::elect, 0, 0);
  const Thread& thread = *current_thread();
  std::uint64_t drawn = thread.block->launch.options.seed * 0x9e3779b97f4a7c15ull + thread.block->index();
  drawn = (drawn ^ (drawn >> 29)) * 0xbf58476d1ce4e5b9ull + thread.warp();
  drawn = (drawn ^ (drawn >> 32)) * 0x94d049bb133111ebull;
  return thread.lane() == (drawn >> 40) % thread.warp_threads ? 1 : 0;
}

void cluster_sync(int site, int orders) {
  at_site(site, [=](Thread& t, Block& b) { b.cluster.sync(t, site, orders != 0); });
}
void mbarrier_arrive_at(int site, unsigned barrier, unsigned rank) {
  at_site(site, [=](Thread& t, Block& b) {
    Block& owner = b.cluster.peer(t, rank, "mbarrier_arrive");
    owner.mbarriers.arrive(t, barrier, &owner != &b);
  });
}
void store_shared_at(int site, unsigned address, const void* bytes, unsigned count, unsigned barrier, unsigned rank) {
  at_site(site, [=](Thread& t, Block& b) {
    Block& there = b.cluster.peer(t, rank, "store_shared_at");
    there.copies.issue_words(t, address, bytes, count, barrier, there.mbarriers);
  });
}
/// May a grid before this one still use global memory?
bool grids_before_run(const Thread& thread) { return !thread.grids_waited_for && thread.block->launch.waits_itself; }
[[noreturn]] void fault_before_grids(const Thread& thread, const std::string& what) {
  fault(thread,
        support::cat(
            what, " of global memory, which a grid before this one may still use: wait_for_grids_before is missing"));
}
void check_grids_before(const Thread& thread, const char* what) {
  if (grids_before_run(thread)) fault_before_grids(thread, what);
}

/// Global memory of a grid whose blocks run side by side.
GlobalMemory& global_of(const Thread& thread, const char* what) {
  GlobalMemory* const global = thread.block->cluster.global();
  if (global == nullptr)
    fault(thread, support::cat(what,
                               " in a kernel whose launch shape does not say across_blocks: its blocks do not "
                               "run side by side"));
  return *global;
}
/// The rows of a box in global memory, which the thread makes the copy engine read or write.
void box_across(const Thread& thread, const void* map, const int* coordinates, int rank, bool write) {
  GlobalMemory* const global = thread.block->cluster.global();
  LinkPort* const links = thread.block->launch.links;
  if (global == nullptr && links == nullptr) return;
  std::array<std::int64_t, 5> origin{};
  std::copy_n(coordinates, rank, origin.begin());
  for_each_row(*static_cast<const TensorMap*>(map), origin, [&](const BoxRow& row) {
    const std::uint64_t begin = row.global + static_cast<std::uint64_t>(row.begin);
    const auto bytes = static_cast<std::size_t>(row.end - row.begin);
    if (global != nullptr) global->access(thread, begin, bytes, write, true);
    if (links != nullptr) links->access(begin, bytes, write);
  });
}

void copy_box_multicast(unsigned destination, const void* map, unsigned barrier, unsigned mask, const int* coordinates,
                        int rank) {
  guarded([=](Thread& t, Block& b) {
    check_grids_before(t, "copy"), b.cluster.copy_to(t, mask, destination, map, barrier, coordinates, rank);
    box_across(t, map, coordinates, rank, false);
  });
}

void copy_box(unsigned destination, const void* map, unsigned barrier, const int* coordinates, int rank) {
  guarded([=](Thread& t, Block& b) {
    check_grids_before(t, "copy"), b.copies.issue(t, destination, map, barrier, coordinates, rank, b.mbarriers);
    box_across(t, map, coordinates, rank, false);
  });
}
void copy_nothing(unsigned destination, unsigned bytes, unsigned barrier) {
  guarded([=](Thread& t, Block& b) { b.copies.issue_nothing(t, destination, bytes, barrier, b.mbarriers); });
}
void copy_box_for_pair(unsigned destination, const void* map, unsigned barrier, const int* coordinates, int rank) {
  guarded([=](Thread& t, Block& b) {
    check_grids_before(t, "copy");
    TensorMemory::other_of_pair(t, "copy_box_for_pair");
    b.copies.issue(t, destination, map, barrier, coordinates, rank,
                   b.cluster.peer(t, b.rank & ~1u, "copy_box_for_pair").mbarriers);
    box_across(t, map, coordinates, rank, false);
  });
}
void store_box(const void* map, unsigned source, const int* coordinates, int rank) {
  guarded([=](Thread& t, Block& b) {
    check_grids_before(t, "store"), b.stores.issue(t, map, source, coordinates, rank);
    box_across(t, map, coordinates, rank, true);
  });
}
void store_commit(int site) {
  at_site(site, [](Thread& t, Block& b) { b.stores.commit(t); });
}
void store_wait(int site, int pending) {
  at_site(site, [=](Thread& t, Block& b) { b.stores.wait(t, site, pending + more(b, site)); });
}
// The first `touched` of the bytes are read or written.
void check_global(const Thread& thread, const void* address, unsigned bytes, unsigned touched, bool write) {
  // Each access comes here, so that texts are made for faults alone.
  if (grids_before_run(thread)) fault_before_grids(thread, support::cat("access of ", bytes, " bytes"));
  const auto number = reinterpret_cast<std::uint64_t>(address);
  if ((number & (bytes - 1u)) != 0)
    fault(thread, support::cat("access of ", bytes, " bytes at global address ", hex(number),
                               ", which is no multiple of ", bytes));
  const auto& memory = thread.block->launch.memory;
  const auto allowed = [&](const support::MemoryRange& range) {
    return number >= range.begin && number + touched <= range.end && (range.written || !write);
  };
  if (touched > 0 && !memory.empty() && std::none_of(memory.begin(), memory.end(), allowed))
    fault(thread, support::cat(write ? "writes " : "reads ", touched, " bytes at global address ", hex(number),
                               ", which is outside of all tensors that the call ", write ? "writes" : "reads"));
  if (GlobalMemory* const global = thread.block->cluster.global()) global->access(thread, number, touched, write);
  if (LinkPort* const links = thread.block->launch.links) links->access(number, touched, write);
}
unsigned counter_draw(unsigned* counter) {
  return guarded([=](Thread& t, Block&) {
    check_grids_before(t, "a counter");
    return global_of(t, "draw_global").add(t, counter, 1, false);
  });
}
void counter_signal(int site, unsigned* counter, unsigned amount) {
  at_site(site, [=](Thread& t, Block& b) {
    check_grids_before(t, "a counter");
    global_of(t, "signal_global").add(t, counter, amount, !b.launch.weak(site));
  });
}
void counter_wait(int site, const unsigned* counter, unsigned value) {
  at_site(site, [=](Thread& t, Block& b) {
    check_grids_before(t, "a counter");
    global_of(t, "wait_global").wait(t, site, counter, value, !b.launch.weak(site));
  });
}
void counter_reset(int site, unsigned* counter) {
  at_site(site, [=](Thread& t, Block&) { global_of(t, "reset_global").set(t, counter, 0); });
}
LinkPort& words(const Block& b) { return b.launch.links != nullptr ? *b.launch.links : words_of_host(); }
unsigned word_load(const unsigned* word) {
  return guarded([=](Thread& t, Block& b) { return words(b).load(t, word); });
}
void word_store(unsigned* word, unsigned value) {
  guarded([=](Thread& t, Block& b) { words(b).store(t, word, value); });
}
void word_rest() {
  guarded([](Thread& t, Block& b) { words(b).rest(t); });
}
unsigned long long time_ns() { return words(*current_thread()->block).time_ns(); }
void tensor_allocate(unsigned place, unsigned columns, int blocks) {
  guarded([=](Thread& t, Block& b) { b.tensor.use(t, blocks), b.tensor.allocate(t, place, columns); });
}
void tensor_relinquish(int blocks) {
  guarded([=](Thread& t, Block& b) { b.tensor.use(t, blocks), b.tensor.relinquish(t); });
}
void tensor_free(unsigned tensor, unsigned columns, int blocks) {
  guarded([=](Thread& t, Block& b) { b.tensor.use(t, blocks), b.tensor.free(t, tensor, columns); });
}
void tensor_load(unsigned tensor, unsigned* words, int count, tj_model_tensor_shape shape) {
  guarded([=](Thread& t, Block& b) { b.tensor.load(t, tensor, words, count, shape); });
}
void tensor_store(unsigned tensor, const unsigned* words, int count, tj_model_tensor_shape shape) {
  guarded([=](Thread& t, Block& b) { b.tensor.store(t, tensor, words, count, shape); });
}
void tensor_wait(int site, int stores) {
  at_site(site, [=](Thread& t, Block& b) { b.tensor.wait(t, stores != 0); });
}
void tensor_fence(int site, int after) {
  at_site(site, [=](Thread& t, Block& b) { b.tensor_order.fence(t, after != 0); });
}
void tensor_multiply(const tj_model_tensor_matrix* instruction) {
  guarded([=](Thread& t, Block& b) { b.tensor.use(t, instruction->blocks), b.tensor_matrix().issue(t, *instruction); });
}
void tensor_commit(int site, unsigned barrier, unsigned mask, int blocks) {
  at_site(site, [=](Thread& t, Block& b) { b.tensor.use(t, blocks), b.tensor_matrix().commit(t, barrier, mask); });
}

void global_access(const void* address, unsigned bytes, int write) {
  guarded([=](Thread& t, Block&) { check_global(t, address, bytes, bytes, write != 0); });
}
void copy_async(unsigned destination, const void* source, unsigned bytes, unsigned present) {
  guarded([=](Thread& t, Block& b) {
    check_global(t, source, bytes, present, false);
    b.thread_copies().issue(t, destination, source, bytes, present);
  });
}
void copy_async_commit(int site) {
  at_site(site, [](Thread& t, Block& b) { b.thread_copies().commit(t); });
}
void copy_async_wait(int site, int pending) {
  at_site(site, [=](Thread& t, Block& b) { b.thread_copies().wait(t, site, pending + more(b, site)); });
}
void copy_async_arrive(int site, unsigned barrier) {
  at_site(site, [=](Thread& t, Block& b) { b.thread_copies().arrive(t, barrier); });
}
void shared_load(unsigned address, void* to, unsigned bytes) {
  guarded([=](Thread& t, Block& b) { std::memcpy(to, b.ordinary_read(t, address, bytes, "load_shared"), bytes); });
}
void shared_store(unsigned address, const void* from, unsigned bytes) {
  guarded([=](Thread& t, Block& b) { std::memcpy(b.ordinary_write(t, address, bytes, "store_shared"), from, bytes); });
}

void matrix_fence(int site) {
  at_site(site, [](Thread& t, Block& b) { b.matrix_of(t).fence(t); });
}
void matrix_commit(int site) {
  at_site(site, [](Thread& t, Block& b) { b.matrix_of(t).commit(t); });
}
void matrix_wait(int site, int pending) {
  at_site(site, [=](Thread& t, Block& b) { b.matrix_of(t).wait(t, site, pending + more(b, site)); });
}
void matrix_multiply(const tj_model_matrix* instruction) {
  guarded([=](Thread& t, Block& b) { b.matrix_of(t).issue(t, *instruction); });
}

void load_warp_matrices(unsigned address, unsigned* words, int count, int transposed) {
  guarded([=](Thread& t, Block&) { load_matrices(t, {address, words, count, transposed != 0}); });
}
void mma(const tj_model_mma* instruction) {
  guarded([=](Thread& t, Block&) { multiply_fragments(t, *instruction); });
}

void wave_mma(const tj_model_wave_mma* instruction) {
  guarded([=](Thread& t, Block&) { multiply_wave(t, *instruction); });
}

constexpr tj_model_api kApi = {TJ_MODEL_ABI_VERSION,
                               &self,
                               &block_sync,
                               &warp_sync,
                               &shuffle,
                               &shuffle_xor,
                               &any_in_warp,
                               &named_barrier,
                               &mbarrier_init,
                               &mbarrier_init_done,
                               &mbarrier_arrive,
                               &mbarrier_expect,
                               &mbarrier_wait,
                               &proxy_fence,
                               &registers,
                               &copy_box,
                               &copy_nothing,
                               &store_box,
                               &store_commit,
                               &store_wait,
                               &shared_load,
                               &shared_store,
                               &matrix_fence,
                               &matrix_commit,
                               &matrix_wait,
                               &matrix_multiply,
                               &global_access,
                               &cluster_sync,
                               &mbarrier_arrive_at,
                               &copy_box_multicast,
                               &copy_async,
                               &copy_async_commit,
                               &copy_async_wait,
                               &copy_async_arrive,
                               &load_warp_matrices,
                               &mma,
                               &wave_mma,
                               &at_node,
                               &reads_arrived,
                               &grids_before,
                               &elect,
                               &tensor_allocate,
                               &tensor_relinquish,
                               &tensor_free,
                               &tensor_load,
                               &tensor_store,
                               &tensor_wait,
                               &tensor_fence,
                               &tensor_multiply,
                               &tensor_commit,
                               &copy_box_for_pair,
                               &clock,
                               &counter_draw,
                               &counter_signal,
                               &counter_wait,
                               &counter_reset,
                               &store_shared_at,
                               &word_load,
                               &word_store,
                               &word_rest,
                               &time_ns};

}  // namespace

const tj_model_api& api() { return kApi; }

}  // namespace tj::model
