"""Protects the edges of a process's life: calls while it ends, forks beside compiles, waits for compilers and makers that do not go on,
and what is left when a process ends in the middle of a compile.

Programs are compiled here, as a user would. Compilers are scripts wherever no kernel has to run; they wait for a file, so that nothing
depends on how fast anything is. Time limits stand for hangs only.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

REPO = Path(os.environ["TJ_TEST_REPO_DIR"])
sys.path.insert(0, str(REPO / "tests" / "support"))
import skips  # noqa: E402

LIBRARY = Path(os.environ["TJ_TEST_LIBRARY"])
WARM = Path(os.environ["TJ_TEST_BUILD_DIR"]) / "bin" / "tj-warm"
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
HANGS = 120  # seconds after which something does not end at all
RUNS = 20
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

PROGRAM = r"""
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <tilejit/tilejit.hpp>
#include <tilejit/tilejit.h>

static void call() {
  std::int32_t ends[2] = {0, 100}, list[16] = {}, total[1] = {};
  const tj::Device cpu{tj::DeviceKind::cpu, 0};
  tj::ChunkIndicesArgs args;
  args.cu_seqlens = tj::Tensor::contiguous(ends, cpu, tj::DType::i32, {2});
  args.chunk_indices = tj::Tensor::contiguous(list, cpu, tj::DType::i32, {8, 2});
  args.total_chunks = tj::Tensor::contiguous(total, cpu, tj::DType::i32, {1});
  tj::Runtime::instance().run(args);
  if (total[0] != 2) ::_exit(7);
  try {
    tj::Runtime::instance().run("none", &args);
    ::_exit(8);
  } catch (const tj::Error& error) {
    if (std::string(error.what()).find("chunk_indices") == std::string::npos) ::_exit(9);
  }
  tj_runtime* runtime = nullptr;
  const char* target = nullptr;
  if (tj_runtime_instance(&runtime) != TJ_OK || tj_target_of(runtime, {TJ_CPU, 0}, &target) != TJ_OK || *target == 0 || *tj_last_error() != 0) ::_exit(10);
  if (tj_run(nullptr, nullptr, nullptr, nullptr) != TJ_INVALID_ARGUMENT || *tj_last_error() == 0) ::_exit(11);
}

static std::atomic<int> calls{0};
static bool late = false, others_call = false;
struct Older {  // made before the library is first used, and destroyed after all that was made later
  ~Older() {
    if (late) call();
    for (const int before = calls; others_call && calls < before + 20;) std::this_thread::yield();
  }
} older;

static tj::Options options(bool disk) {
  tj::Options own;
  own.use_disk_cache = disk;
  return own;
}
static tj::KernelReport warm(tj::Runtime& runtime, bool other) {
  tj::GemmConfig config;
  config.bias = other;
  return runtime.warm(config, "model:sm_80");
}
static bool exists(const std::string& path) { struct stat s; return ::stat(path.c_str(), &s) == 0; }

/// A thread compiles, with a compiler that waits; children make the same kernel and another.
static int forks(const std::string& folder, bool disk) {
  tj::Runtime runtime(options(disk));
  std::thread compiles([&] { warm(runtime, false); });
  while (!exists(folder + "/first")) std::this_thread::yield();
  int wrong = 0;
  for (int i = 0; i < (disk ? 1 : 10); ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      const tj::KernelReport same = warm(runtime, false), other = warm(runtime, true);
      const bool right = disk ? same.origin == tj::KernelOrigin::disk : same.origin == tj::KernelOrigin::compiled;
      ::_exit(right && other.name != same.name ? 0 : 1);
    }
    if (disk) std::fclose(std::fopen((folder + "/go").c_str(), "w"));  // the child waits for its parent's kernel
    int status = 0;
    ::waitpid(child, &status, 0);
    wrong += status != 0;
  }
  std::fclose(std::fopen((folder + "/go").c_str(), "w"));
  compiles.join();
  return wrong;
}

/// A thread compiles, with a compiler that waits; another one wants the same kernel.
static int waits(const std::string& folder) {
  std::string said;
  tj::Options own = options(true);
  own.wait_limit_s = 1.5;
  own.log_sink = [&](tj::LogLevel, std::string_view text) { said += text; };
  tj::Runtime runtime(own);
  std::thread compiles([&] { warm(runtime, false); });
  while (!exists(folder + "/first")) std::this_thread::yield();
  const bool made = warm(runtime, false).origin == tj::KernelOrigin::compiled;
  std::fclose(std::fopen((folder + "/go").c_str(), "w"));
  compiles.join();
  const bool told = said.find("waiting for another thread, which makes it") != said.npos && said.find("another thread still makes it") != said.npos;
  return made && told ? 0 : 1;
}

/// A thread is cancelled while it compiles.
static int cancelled(const std::string& folder) {
  static tj::Runtime runtime(options(true));
  pthread_t compiles;
  pthread_create(&compiles, nullptr, [](void*) -> void* {
    warm(runtime, false);
    pthread_testcancel();
    return nullptr;
  }, nullptr);
  while (!exists(folder + "/first")) std::this_thread::yield();
  pthread_cancel(compiles);
  std::fclose(std::fopen((folder + "/go").c_str(), "w"));
  void* value = nullptr;
  pthread_join(compiles, &value);
  return value == PTHREAD_CANCELED && warm(runtime, false).origin != tj::KernelOrigin::compiled ? 0 : 1;
}

int main(int, char** words) {
  const std::string mode = words[1];
  if (mode == "cancelled") return cancelled(words[2]);
  if (mode == "waits") return waits(words[2]);
  if (mode == "forks") return forks(words[2], false);
  if (mode == "forks-disk") return forks(words[2], true);
  if (mode == "leaves") {  // main returns while a thread compiles
    std::thread([] { warm(tj::Runtime::instance(), false); }).detach();
    while (!exists(std::string(words[2]) + "/pid")) std::this_thread::yield();
    return 0;
  }
  call();
  if (mode == "static") {
    late = true;
    return 0;
  }
  others_call = true;
  for (int t = 0; t < 4; ++t)
    std::thread([] {
      for (;;) {
        call();
        ++calls;
      }
    }).detach();
  while (calls < 8) std::this_thread::yield();
  if (mode == "exit") std::thread([] { std::exit(0); }).join();
  return 0;
}
"""

# Opens the library, as foreign-function interfaces do, and closes it while a thread compiles.
CLOSES = r"""
#include <cstdio>
#include <dlfcn.h>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <tilejit/tilejit.h>

int main(int, char** words) {
  void* library = dlopen(words[1], RTLD_NOW);
  if (library == nullptr) return 2;
  dlclose(library);
  if (dlopen(words[1], RTLD_NOW | RTLD_NOLOAD) != library) return 3;  // else nothing would keep it there for a thread inside
  const auto instance = reinterpret_cast<decltype(&tj_runtime_instance)>(dlsym(library, "tj_runtime_instance"));
  const auto warm = reinterpret_cast<decltype(&tj_warm_flags)>(dlsym(library, "tj_warm_flags"));
  const std::string folder = words[2];
  tj_status status = TJ_INTERNAL;
  std::thread compiles([&] {
    tj_runtime* runtime = nullptr;
    if (instance(&runtime) == TJ_OK) status = warm(runtime, "chunk_indices", "", "model:sm_80", nullptr, nullptr);
  });
  struct stat found;
  while (::stat((folder + "/pid").c_str(), &found) != 0) std::this_thread::yield();
  dlclose(library);
  std::fclose(std::fopen((folder + "/go").c_str(), "w"));
  compiles.join();
  return status;
}
"""

# The first call notes its process and waits for a file; each makes something that is not looked at until it is loaded.
SCRIPT = """#!/bin/sh
if mkdir {folder}/first 2>/dev/null; then
  echo $$ > {folder}/note
  mv {folder}/note {folder}/pid
  while [ ! -e {folder}/go ]; do sleep 0.05; done
fi
for word in "$@"; do
  [ "$last" = -o ] && cp {object} "$word"
  last=$word
done
exit 0
"""


def is_running(process):
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


def wait_until(condition, what):
    end = time.monotonic() + HANGS
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"never: {what}")
        time.sleep(0.01)


class Ends(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory(prefix="tilejit_ends_")
        cls.program = cls.built("program", PROGRAM, LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}")
        cls.closes = cls.built("closes", CLOSES, "-ldl")

    @classmethod
    def built(cls, name, text, *libraries):
        program = Path(cls.shared.name) / name
        source = program.with_suffix(".cpp")
        source.write_text(text)
        subprocess.run([COMPILER, "-std=c++20", "-O0", "-I", REPO / "include", source, "-o", program, *libraries, "-pthread"], check=True)
        return program

    @classmethod
    def tearDownClass(cls):
        cls.shared.cleanup()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tilejit_ends_")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name in ("bin", "tmp"):
            (self.folder / name).mkdir()
        script = self.folder / "bin" / "c++"
        script.write_text(SCRIPT.format(folder=self.folder, object=self.closes))  # some whole ELF file: a cache keeps no other
        script.chmod(0o700)
        self.environment = {**os.environ, "TMPDIR": str(self.folder / "tmp"), "TJ_CACHE_DIR": str(self.folder / "cache"),
                            "TJ_TARGET": "model:sm_80", "TJ_LOG_LEVEL": "warn"}
        self.scripted = {**self.environment, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}

    def run_program(self, *words, environment):
        return subprocess.run([self.program, *words], env=environment, timeout=HANGS, capture_output=True, text=True)

    def warm(self, **changes):
        def default_signals():  # whoever runs this in the background may ignore them
            for number in ENDING:
                signal.signal(number, signal.SIG_DFL)

        process = subprocess.Popen([WARM, "--op", "chunk_indices", "--target", "model:sm_80"], env={**self.scripted, **changes},
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=default_signals)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def started(self):
        """The process of the compiler that waits."""
        note = self.folder / "pid"
        wait_until(note.exists, "the compiler starts")
        return int(note.read_text())

    def left(self):
        return sorted(path.name for path in (self.folder / "tmp").iterdir())

    # ---- while the process ends

    def test_calls_while_the_process_ends(self):
        for mode in ("static", "threads", "exit"):
            for i in range(RUNS):
                with self.subTest(mode=mode, run=i):
                    done = self.run_program(mode, environment=self.environment)
                    self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_nothing_of_the_library_is_destroyed(self):
        """Each object that would be is registered by a call of the C++ ABI. process_end.cpp passes on those of a compiler, and has no such object."""
        if shutil.which("nm") is None:
            self.skipTest("no nm")
        found = []
        for archive in sorted(LIBRARY.parent.glob("libtilejit_*.a")):
            listing = subprocess.run(["nm", "-A", "--undefined-only", archive], check=True, capture_output=True, text=True).stdout
            found += [line.split(":")[-2] + line.split()[-1] for line in listing.splitlines() if line.split()[-1] in ("__cxa_atexit", "__cxa_thread_atexit")]
        self.assertEqual(["lasting.cpp.o__cxa_thread_atexit", "process_end.cpp.o__cxa_atexit"], sorted(set(found)))

    def test_the_library_is_closed_while_a_thread_compiles(self):
        done = subprocess.run([self.closes, LIBRARY, self.folder], env=self.scripted, timeout=HANGS, capture_output=True, text=True)
        self.assertEqual((0, ""), (done.returncode, done.stderr))

    # ---- forks

    def test_children_of_a_fork_beside_a_compile(self):
        for mode in ("forks", "forks-disk"):
            with self.subTest(mode=mode):
                done = self.run_program(mode, str(self.folder), environment=self.scripted)
                self.assertEqual(0, done.returncode, done.stderr)
                (self.folder / "go").unlink()
                (self.folder / "first").rmdir()

    # ---- waits

    def test_a_stopped_maker_is_named_and_not_waited_for_for_ever(self):
        first = self.warm()
        self.started()
        first.send_signal(signal.SIGSTOP)
        output, _ = self.warm(TJ_WAIT_LIMIT="1.5").communicate(timeout=HANGS)
        self.assertIn(f"waiting for process {first.pid} (tj-warm), which makes it", output)
        self.assertIn(f"process {first.pid} (tj-warm) still makes it", output)
        self.assertIn("1 compiled, 0 already in the cache, 0 failed", output)
        first.send_signal(signal.SIGCONT)
        (self.folder / "go").touch()
        output, _ = first.communicate(timeout=HANGS)
        self.assertEqual(0, first.returncode, output)

    def test_a_thread_that_does_not_go_on_is_not_waited_for_for_ever(self):
        done = self.run_program("waits", str(self.folder), environment=self.scripted)
        self.assertEqual(0, done.returncode, done.stderr)

    def test_a_thread_that_is_cancelled_makes_its_kernel_first(self):
        done = self.run_program("cancelled", str(self.folder), environment=self.scripted)
        self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_a_compiler_that_hangs_is_ended(self):
        output, _ = self.warm(TJ_COMPILE_LIMIT="0.5").communicate(timeout=HANGS)
        self.assertIn(f"{self.folder}/bin/c++ was ended, as it had not finished after 0.5 s; if it needs longer here, raise", output)
        self.assertIn("TJ_COMPILE_LIMIT", output)
        if (self.folder / "pid").exists():
            wait_until(lambda: not is_running(self.started()), "the compiler is ended")
        self.assertEqual([], self.left())

    # ---- what is left

    def test_a_normal_end_in_the_middle_of_a_compile_leaves_nothing(self):
        done = self.run_program("leaves", str(self.folder), environment=self.scripted)
        self.assertEqual(0, done.returncode, done.stderr)
        wait_until(lambda: not is_running(self.started()), "the compiler is ended")
        self.assertEqual([], self.left())

    def test_signals_leave_nothing_of_a_tool(self):
        for number in ENDING:
            with self.subTest(signal=number.name):
                tool = self.warm()
                compiler = self.started()
                tool.send_signal(number)
                self.assertEqual(-number, tool.wait(timeout=HANGS))
                wait_until(lambda: not is_running(compiler), "the compiler is ended")
                self.assertEqual([], self.left())
                (self.folder / "first").rmdir()
                (self.folder / "pid").unlink()

    def test_what_a_killed_process_leaves_goes_with_the_next_compile(self):
        mine = self.folder / "tmp" / "tilejit-master"  # a folder of the user's own, whose name could be one of ours
        (mine / "sources").mkdir(parents=True)
        tool = self.warm()
        compiler = self.started()
        tool.kill()
        tool.wait()
        wait_until(lambda: not is_running(compiler), "the compiler ends with its parent")
        self.assertEqual(2, len(self.left()))
        output, _ = self.warm().communicate(timeout=HANGS)
        self.assertIn("1 compiled", output)
        self.assertEqual(["tilejit-master"], self.left())

    def test_a_living_process_keeps_its_folder(self):
        first = self.warm()
        self.started()
        before = self.left()
        output, _ = self.warm(TJ_CACHE_DIR=str(self.folder / "other")).communicate(timeout=HANGS)
        self.assertIn("1 compiled", output)
        self.assertEqual((1, before), (len(before), self.left()))
        (self.folder / "go").touch()
        output, _ = first.communicate(timeout=HANGS)
        self.assertEqual((0, []), (first.returncode, self.left()), output)


if __name__ == "__main__":
    skips.main()
