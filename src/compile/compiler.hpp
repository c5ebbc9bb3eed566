// One interface over NVRTC, hiprtc, clang and the host C++ compiler.
//
// Decides how a text becomes a binary. Knows neither graphs nor ops. Libraries are opened at first use, not before.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tj::compile {

struct Header {
  std::string name;
  std::string_view text;
};

struct Job {
  std::string name;  ///< name of the unit, for messages: "fmha_f16_d128_causal.cu"
  std::string text;
  std::vector<Header> headers;       ///< every include that the text can reach
  std::string arch;                  ///< "sm_90a"; the host compiler ignores it
  std::vector<std::string> options;  ///< options beyond the backend's own; part of the cache key
  bool time_phases = false;          ///< Binary::phases is wanted, which may take further runs of the compiler
};

/// A part of a compile, under one of the names of phases.hpp or the compiler's own.
struct Phase {
  std::string name;
  double milliseconds = 0;
};

struct Binary {
  std::string bytes;          ///< cubin, code object or shared object
  std::string log;            ///< warnings and resource use
  double milliseconds = 0;    ///< time of the one compile that made the bytes
  std::vector<Phase> phases;  ///< in order, where the job asks for them and the compiler tells them apart; else empty
  int registers = 0;          ///< registers a thread; 0 when unknown
  int spill_bytes = 0;        ///< stores + loads
  std::vector<std::string> warnings;  ///< lines of the log about lost speed: spills, serialised matrix instructions
};

/// One file, as stat sees it.
struct FileStamp {
  std::string path;  ///< empty when none was found
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
};

/// The compiler that would compile, found by stat alone: nothing is opened.
struct Identity : FileStamp {
  std::string kind;                ///< "nvrtc"
  std::vector<FileStamp> helpers;  ///< programs that it starts in its turn, such as a linker
  bool present() const { return !path.empty(); }
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  virtual Identity identity() const = 0;
  /// Whether it compiles in this process, whose end then waits for that.
  virtual bool is_library() const { return false; }
  /// Options that the backend itself adds; part of the cache key.
  virtual std::vector<std::string> base_options(std::string_view arch) const = 0;
  /// Options of a job (behind the base's) that is to take a part of the time, whatever that costs its launches. Empty
  /// where the compiler has no such way.
  virtual std::vector<std::string> quick_options() const { return {}; }
  /// "13.0"; opens the library. Throws tj::Error(compile, not_found) with what was searched.
  virtual std::string version() = 0;
  /// Thread safe. Throws tj::Error(compile) with the log.
  virtual Binary compile(const Job& job) = 0;
};

struct Settings {
  std::string hip_compiler = "auto";  ///< "auto", "hiprtc", "clang"
  std::string arch;                   ///< the architecture for which "auto" looks for a compiler
  double limit_s = 0;  ///< time that a compiler may take which is a program; 0: no limit. Libraries cannot be
                       ///< interrupted
};

/// "nvrtc", "hiprtc" (whichever compiler of HIP the settings choose) or "host". Throws tj::Error(compile, internal) for
/// another name.
std::unique_ptr<Compiler> make_compiler(std::string_view kind, const Settings& settings);

}  // namespace tj::compile
