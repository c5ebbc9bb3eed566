// See process.hpp.
#include "support/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "support/atomic_file.hpp"
#include "support/fail.hpp"
#include "support/file_descriptor.hpp"
#include "support/fork_safe.hpp"
#include "support/lasting.hpp"
#include "support/patience.hpp"
#include "support/program_start.hpp"

namespace tj::support {
namespace {

/// The group of a program. It ends when this process is gone, however that came. The kernel ends the program alone
/// then: a compiler's driver, say, but not the compiler. A small program leads the group and reads from a pipe that
/// nobody writes to. The pipe ends with this process: forked children close it. The small program is there first, so
/// that no moment is left out. Where it cannot be started, the program leads the group, and that end is missing.
/// Invariant: while it lives, the group's number is no other's.
class Watcher {
 public:
  Watcher();
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  pid_t group() const noexcept { return group_; }  ///< 0: there is none
  /// The program has a group of its own.
  void leads_nobody() noexcept { group_ = 0; }

 private:
  FileDescriptor open_pipe();
  int into_ = -1;  ///< listed, for forked children
  FileDescriptor handle_;
  pid_t leader_ = 0, group_ = 0;
  bool stays_ = false;  ///< it is process 1 of a namespace, for all later programs, and ends with this process alone
  std::uint32_t generation_ = process_generation();
};
using Watchers = std::map<pid_t, std::unique_ptr<Watcher>>;  ///< by their programs

struct Running {
  Mutex mutex;
  Watchers watchers;    ///< of programs that nobody waits for yet
  std::set<int> pipes;  ///< of all watchers
  std::set<pid_t> groups;
  std::atomic<bool> ending{false};
};
Running& running() {
  static constinit Lasting<Running> list;
  return list.get([] {
    in_forked_children([] {
      running().ending.store(false);
      if (!running().mutex.is_whole()) return;
      running().groups.clear();  // the parent's
      for (const int pipe : running().pipes) ::close(pipe);
      running().pipes.clear();
      running().watchers.clear();
    });
    return Running{};
  });
}

Watcher::Watcher() {
  const FileDescriptor from = open_pipe();
  if (into_ < 0) return;
  ProgramStart how;
  how.input = how.output = from.get();  // nothing is written
  pid_t child = -1;
  if (start_program({"/bin/sh", "-c", "read gone; kill -s KILL -- \"-$$\""}, {}, child, how) != 0) return;
  leader_ = group_ = child;
  stays_ = how.first;
  handle_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
}

Watcher::~Watcher() {
  if (stays_ || generation_ != process_generation()) return;  // or the parent's
  if (leader_ > 0) {
    // It may have ended with its group. Where nobody reaps children, its number may be another's then.
    if (handle_)
      ::syscall(SYS_pidfd_send_signal, handle_.get(), SIGKILL, nullptr, 0);
    else
      ::kill(leader_, SIGKILL);
    reap_process(leader_);
  }
  const std::lock_guard lock(running().mutex);
  if (running().pipes.erase(into_) > 0) ::close(into_);
}

/// Opened and listed in one step as seen by fork(). Returns the end to read from.
FileDescriptor Watcher::open_pipe() {
  Running& all = running();
  const std::lock_guard lock(all.mutex);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  FileDescriptor into(ends[1]), from(ends[0]);
  if (!into || !from) return {};
  all.pipes.insert(into.get());
  into_ = into.release();
  return from;
}

std::unique_ptr<Watcher> watcher_of(pid_t child) {
  Running& all = running();
  const std::lock_guard lock(all.mutex);
  const auto found = all.watchers.find(child);
  if (found == all.watchers.end()) return nullptr;
  std::unique_ptr<Watcher> watcher = std::move(found->second);
  all.watchers.erase(found);
  return watcher;
}

/// True once it has ended, false after this time or when there is something to read. Leaves it to be reaped.
bool has_ended(pid_t child, const FileDescriptor& watch, int output, std::chrono::nanoseconds most) {
  const auto ms = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(most).count());
  if (watch) {
    pollfd events[2] = {{watch.get(), POLLIN, 0}, {output, POLLIN, 0}};  // one of -1 is passed over
    return ::poll(events, 2, ms) > 0 && events[0].revents != 0;
  }
  siginfo_t info{};
  std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(most, std::chrono::milliseconds(10)));
  return ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

/// A program that somebody waits for, which does not outlive him: where no memory is left to go on, its group is ended
/// and it is reaped. Invariant: its number is listed no longer than it is its own.
class Reaped {
 public:
  explicit Reaped(pid_t child)
      : child_(child),
        watcher_(watcher_of(child)),
        group_(watcher_ && watcher_->group() > 0 ? watcher_->group() : child) {}
  ~Reaped() {
    if (child_ <= 0) return;
    end_group();
    reap_now();
  }
  Reaped(const Reaped&) = delete;
  Reaped& operator=(const Reaped&) = delete;

  /// From now on the end of this process ends it.
  void list() {
    list_ = &running();
    const std::lock_guard lock(list_->mutex);
    list_->groups.insert(group_);
    if (list_->ending.load()) end_group();
  }
  void end_group() const noexcept { ::kill(-group_, SIGKILL); }
  int reap_now() {
    const pid_t child = std::exchange(child_, 0);
    if (list_ == nullptr) return reap_process(child);
    const std::lock_guard lock(list_->mutex);
    list_->groups.erase(group_);  // before its number is free for others
    return reap_process(child);
  }

 private:
  pid_t child_;
  const std::unique_ptr<Watcher> watcher_;
  const pid_t group_;
  Running* list_ = nullptr;
};

/// Whether what this process starts is in another namespace of processes than itself.
bool children_are_elsewhere() {
  std::array<struct stat, 2> found{};
  return ::stat("/proc/self/ns/pid", found.data()) == 0 &&
         (::stat("/proc/self/ns/pid_for_children", &found[1]) != 0 || found[0].st_ino != found[1].st_ino);
}

/// While a process ends, nobody learns what its end has done to programs.
void stay_if_ending() {
  if (running().ending.load()) std::this_thread::sleep_for(std::chrono::seconds(2));
}

}  // namespace

int start_process(std::vector<std::string> words, std::vector<std::string> environment, int output, pid_t& child,
                  ProcessGroup group) {
  if (running().ending.load()) return ECANCELED;
  // Away from the three that the child's own take the place of: a process that has closed one of its own gets that
  // number for `output`.
  const FileDescriptor aside(::fcntl(output, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!aside) return errno;
  ProgramStart how;
  how.output = aside.get();
  how.parent = ::getpid();
  how.group = kCallersGroup;
  if (group == ProcessGroup::callers) return start_program(std::move(words), std::move(environment), child, how);
  Watchers one;  // no memory is asked for once the program runs
  how.group = one.emplace(0, std::make_unique<Watcher>()).first->second->group();
  if (const int error = start_program(std::move(words), std::move(environment), child, how); error != 0) return error;
  if (how.group == 0) one.begin()->second->leads_nobody();
  auto of_child = one.extract(one.begin());
  of_child.key() = child;
  const std::lock_guard lock(running().mutex);
  running().watchers.insert(std::move(of_child));
  return 0;
}

std::string start_failure(int error, std::string_view otherwise) {
  const bool over = error == ENOMEM && children_are_elsewhere();
  return cat(errno_text(error), "; ",
             over ? "the first process of the PID namespace that children of this one are in may have ended, and none "
                    "starts there any more: let it stay (unshare --fork)"
                  : next_step(error, otherwise));
}

int wait_for_process(pid_t child) {
  const auto watcher = watcher_of(child);
  const int status = reap_process(child);
  stay_if_ending();
  return status;
}

ProgramOutput::ProgramOutput() : part_(std::size_t{64} * 1024) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    error_ = errno;
    return;
  }
  into_ = FileDescriptor(ends[1]);
  from_ = FileDescriptor(ends[0]);
  if (!into_ || !from_ || ::fcntl(from_.get(), F_SETFL, O_NONBLOCK) != 0) error_ = errno;
}

/// At most this much at a time, so that the time is looked at beside a program that writes for ever.
void ProgramOutput::read_some() {
  constexpr int kTimes = 16;
  for (int i = 0; i < kTimes && from_; ++i) {
    const ssize_t count = ::read(from_.get(), part_.data(), part_.size());
    if (count > 0) {
      log_.append({part_.data(), static_cast<std::size_t>(count)});
    } else if (count == 0) {
      from_.reset();
    } else if (errno != EINTR) {
      return;
    }
  }
}

int wait_for_process(pid_t child, double limit_s, bool& over, ProgramOutput* output) {
  constexpr std::chrono::seconds kLongestStep{60};
  Reaped reaped(child);
  reaped.list();
  const FileDescriptor watch(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  const Patience patience(limit_s);
  over = false;
  if (output != nullptr) output->started();
  const auto read_some = [output] {
    if (output != nullptr) output->read_some();
  };
  while (!has_ended(child, watch, output != nullptr ? output->from_.get() : -1,
                    over ? kLongestStep : patience.step(kLongestStep))) {
    read_some();
    if (over || !patience.over()) continue;
    over = true;
    reaped.end_group();
  }
  read_some();
  stay_if_ending();
  return reaped.reap_now();
}

void end_processes() noexcept {
  Running& list = running();
  list.ending.store(true);
  const std::lock_guard lock(list.mutex);
  for (const pid_t group : list.groups) ::kill(-group, SIGKILL);
}

}  // namespace tj::support
