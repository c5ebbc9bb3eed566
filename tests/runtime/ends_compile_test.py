"""Protects the end of a process in whose threads NVRTC compiles: it waits for what compiles, begins nothing more, and says so. Signals end it as
the program says.

NVRTC registers exit handlers when it is opened and in its first compiles. They destroy what its calls work with. Programs are compiled here, as
a user would. The driver does nothing. Times only choose the moment at which a process ends: each has to be right.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

REPO = Path(os.environ["TJ_TEST_REPO_DIR"])
sys.path[:0] = [str(REPO / "tests" / "support"), str(REPO / "tests" / "recipes")]
import skips  # noqa: E402
from recipe import cached  # noqa: E402

LIBRARY = Path(os.environ["TJ_TEST_LIBRARY"])
DRIVER = Path(os.environ["TJ_TEST_BUILD_DIR"]) / "tests" / "fakes" / "libcuda.so.1"
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
HANGS = 200  # seconds after which something does not end at all
MOMENTS_MS = (0, 30, 60, 90, 130, 200, 300)  # NVRTC 13 registers handlers some 20 to 60 ms after its start

PROGRAM = r"""
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <tilejit/preparation.hpp>
#include <tilejit/tilejit.hpp>

static const tj::Device kGpu{tj::DeviceKind::cuda, 0};
static void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
static tj::GemmConfig config(int number) {
  tj::GemmConfig one;
  one.dtype = one.out = number % 2 ? tj::DType::bf16 : tj::DType::f16;
  one.bias = number / 2 % 2;
  one.a_transposed = number / 4 % 2;
  one.b_transposed = number / 8 % 2;
  one.add_c = number / 16 % 2;
  return one;
}
static std::atomic<int> made{0};
static std::atomic<bool> refused{false};
static bool long_end = false, late_call = false;
static std::atomic<int> handled{0};

static int find_nvrtc(dl_phdr_info* library, std::size_t, void* found) {
  const std::string path = library->dlpi_name;
  if (path.find("libnvrtc.so") == std::string::npos) return 0;
  *static_cast<std::string*>(found) = path;
  return 1;
}
/// Returns when NVRTC's constructors are done: dlopen() waits for them.
static void wait_for_nvrtc() {
  std::string path;
  while (dl_iterate_phdr(&find_nvrtc, &path) == 0) sleep_ms(1);
  ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
}

/// Compiles until it is refused, and asks once more then.
static void compile_all() {
  for (int i = 0; i < 32; ++i) try {
      tj::Runtime::instance().warm(config(i), "sm_90a");
      ++made;
    } catch (const tj::Error& error) {
      if (std::string(error.what()).find("this process is ending") == std::string::npos) {
        std::fprintf(stderr, "%s\n", error.what());
        ::_exit(3);
      }
      refused = true;
    }
}

struct Older {  // destroyed behind everything that was made later: NVRTC's, the library's
  ~Older() {
    if (late_call) compile_all();
    for (int i = 0; long_end && !refused && i < 1000; ++i) sleep_ms(10);
    if ((late_call || long_end) && !refused) ::_exit(4);
  }
} older;

int main(int, char** words) {
  const std::string mode = words[1];
  const int ms = std::atoi(words[2]);
  if (mode == "prepares") {  // the first compile of the process
    tj::prepare_async(config(0), kGpu);
    sleep_ms(ms);
  } else if (mode == "prepares-more") {
    tj::Runtime::instance().warm(config(1), "sm_90a");
    tj::prepare_async(config(0), kGpu);
    sleep_ms(ms);
  } else if (mode == "exits") {  // from a thread that never used the library, where NVRTC has registered all it will
    tj::Runtime::instance().warm(config(1), "sm_90a");
    tj::prepare_async(config(0), kGpu);
    std::thread([&] { sleep_ms(ms); std::exit(0); }).join();
  } else if (mode == "exits-first") {  // from a thread that used the library for something else, beside the first compile
    std::thread first([] { compile_all(); });
    std::thread([&] { tj::Runtime::instance().counters(); sleep_ms(ms); std::exit(0); }).join();
  } else if (mode == "exits-second") {  // from a thread that never used the library, while main's return waits for a first compile
    std::thread(compile_all).detach();
    wait_for_nvrtc();
    std::thread([ms] { sleep_ms(ms); std::exit(0); }).detach();
  } else if (mode == "exits-unopened") {  // the same, while main's return waits for a compile that has not opened NVRTC
    std::thread(compile_all).detach();
    std::thread([ms] { sleep_ms(ms); std::exit(0); }).detach();
  } else if (mode == "calls") {  // a thread of the program's compiles, and the end takes its time
    long_end = true;
    std::thread(compile_all).detach();
    sleep_ms(ms);
    while (made == 0) sleep_ms(1);
  } else if (mode == "first-call") {
    std::thread(compile_all).detach();
    sleep_ms(ms);
  } else if (mode == "handles") {  // the program's own handlers, beside the first compile
    for (const int number : {SIGINT, SIGTERM}) std::signal(number, [](int) { ++handled; });
    std::thread first([] { tj::Runtime::instance().warm(config(0), "sm_90a"); });
    sleep_ms(ms);
    for (const int number : {SIGINT, SIGTERM}) ::kill(::getpid(), number);
    first.join();
    return handled == 2 ? 7 : 5;
  } else if (mode == "ended") {  // no handler: the signal ends the process
    std::signal(SIGTERM, SIG_DFL);
    std::thread([] { tj::Runtime::instance().warm(config(0), "sm_90a"); }).detach();
    sleep_ms(ms);
    ::kill(::getpid(), SIGTERM);
    sleep_ms(10000);
  } else if (mode == "late") {
    late_call = true;
    tj::Runtime::instance().warm(config(31), "sm_90a");
  }
  return 0;
}
"""


@unittest.skipIf(COMPILER is None, "no C++ compiler")
@unittest.skipUnless(os.path.isdir(cached("TJ_NVRTC_DIR")), "no NVRTC on this machine")
@unittest.skipUnless(DRIVER.exists(), "the build has no stand-ins for drivers")
class Ends(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory(prefix="tilejit_ends_")
        cls.folder = Path(cls.shared.name)
        cls.program = cls.folder / "program"
        source = cls.program.with_suffix(".cpp")
        source.write_text(PROGRAM)
        subprocess.run([COMPILER, "-std=c++20", "-O0", "-I", REPO / "include", source, "-o", cls.program, LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}",
                        "-pthread"], check=True)
        (cls.folder / "driver").mkdir()
        (cls.folder / "driver" / "libcuda.so.1").symlink_to(DRIVER)

    @classmethod
    def tearDownClass(cls):
        cls.shared.cleanup()

    def ends_well(self, mode, ms=0, status=0, **variables):
        with tempfile.TemporaryDirectory(prefix="tilejit_ends_") as cache, self.subTest(mode=mode, ms=ms):
            environment = {**os.environ, "TJ_CACHE_DIR": cache, "LD_LIBRARY_PATH": f"{self.folder / 'driver'}:{os.environ.get('LD_LIBRARY_PATH', '')}",
                           **variables}
            environment.pop("TJ_TARGET", None)
            done = subprocess.run([self.program, mode, str(ms)], env=environment, timeout=HANGS, capture_output=True, text=True)
            self.assertEqual((status, ""), (done.returncode, done.stderr))

    def test_beside_the_first_compile_of_a_process_in_the_background(self):
        for ms in MOMENTS_MS:
            self.ends_well("prepares", ms)

    def test_beside_a_later_one(self):
        for ms in MOMENTS_MS[:3]:
            self.ends_well("prepares-more", ms)

    def test_by_exit_in_another_thread(self):
        for ms in MOMENTS_MS[:4]:
            self.ends_well("exits", ms)
        for ms in range(0, 60, 4):
            self.ends_well("exits-first", ms)

    def test_by_exit_in_another_thread_while_main_s_return_waits(self):
        for ms in (1, 2, 4, *range(10, 90, 10)):
            self.ends_well("exits-second", ms)
        for ms in (1, 2, 4, 8, 16):  # main returns before a compile can open NVRTC, which is refused then
            self.ends_well("exits-unopened", ms)

    def test_beside_the_first_compile_in_a_thread_of_the_programs(self):
        for ms in MOMENTS_MS:
            self.ends_well("first-call", ms)

    def test_signals_are_the_programs_own_matter_beside_the_first_compile(self):
        for ms in range(0, 120, 6):  # NVRTC's front end has its own handlers from some 15 ms on, for 20 to 150 ms
            self.ends_well("handles", ms, status=7)
        for ms in range(0, 120, 20):
            self.ends_well("ended", ms, status=-signal.SIGTERM)

    def test_an_end_that_takes_long_refuses_new_compiles(self):
        for ms in MOMENTS_MS[:2]:
            self.ends_well("calls", ms)

    def test_a_compile_in_a_destructor_behind_the_compilers_end_is_refused(self):
        self.ends_well("late")

    def test_a_compile_that_takes_longer_than_the_end_may_is_broken_off(self):
        held = self.folder / "held"
        held.mkdir()
        (held / "libcuda.so.1").symlink_to(DRIVER)
        (held / "libnvrtc.so.13").symlink_to(DRIVER.parent / "libnvrtc.so.1")
        self.ends_well("prepares", 200, LD_LIBRARY_PATH=str(held), FAKE_NVRTC_HOLD=str(held / "broken_off"))
        self.assertTrue((held / "broken_off").exists(), "no compile was under way, or it was not broken off")


if __name__ == "__main__":
    skips.main()
