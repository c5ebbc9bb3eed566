// Protects precedence (Options, variable, default) and that a bad value is named with what is allowed.
#include "support/environment.hpp"

#include <doctest/doctest.h>
#include <pwd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "support/variables.hpp"
#include "tests/support/scratch.hpp"

namespace {

std::vector<std::string> read_names() {
  std::vector<std::string> names = tj::support::known_variables();
  names.insert(names.end(), {"XDG_CACHE_HOME", "HOME"});
  return names;
}

/// Only the given variables are set while it lives.
class Variables {
 public:
  explicit Variables(const std::map<std::string, std::string>& values) {
    for (const std::string& name : read_names()) {
      if (const char* value = std::getenv(name.c_str())) saved_[name] = value;
      ::unsetenv(name.c_str());
    }
    for (const auto& [name, value] : values) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() {
    for (const std::string& name : read_names()) ::unsetenv(name.c_str());
    for (const auto& [name, value] : saved_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::map<std::string, std::string> saved_;
};

tj::support::Settings settings(const std::map<std::string, std::string>& values, const tj::Options& options = {}) {
  const Variables variables(values);
  return tj::support::resolve_settings(options);
}

std::string refusal(const std::map<std::string, std::string>& values, const tj::Options& options = {}) {
  try {
    settings(values, options);
  } catch (const tj::Error& error) {
    CHECK(error.stage == tj::Stage::argument);
    CHECK(error.code == tj::Code::invalid_argument);
    return error.message;
  }
  return "";
}

}  // namespace

TEST_CASE("several folders of the cache: each absolute and once, empty ones left out; a default is one folder") {
  CHECK(settings({{"TJ_CACHE_DIR", "/a//b:/c/:/a/b"}}).cache_dir == "/a/b:/c");
  CHECK(settings({{"TJ_CACHE_DIR", ":/a::/b:"}}).cache_dir == "/a:/b");
  CHECK(settings({{"TJ_CACHE_DIR", "/a:b"}}).cache_dir == "/a:" + (std::filesystem::current_path() / "b").string());
  tj::Options options;
  options.cache_dir = "/one:/two";
  CHECK(settings({{"TJ_CACHE_DIR", "/c"}}, options).cache_dir == "/one:/two");
  CHECK(refusal({{"TJ_CACHE_DIR", "::"}}).find("TJ_CACHE_DIR is '::'; allowed: a folder, or several") == 0);
  CHECK(refusal({{"TJ_CACHE_DIR", "/a:~/b"}}).find("TJ_CACHE_DIR is '~/b'; allowed: a whole path") == 0);
  CHECK(settings({{"HOME", "/h:1"}}).cache_dir.empty());
  CHECK(settings({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x:y"}}).cache_dir.empty());
}

TEST_CASE("the file of facts: option, variable, none; made absolute") {
  CHECK(settings({}).facts_file.empty());
  CHECK(settings({{"TJ_FACTS", "/r//f"}}).facts_file == "/r/f");
  CHECK(settings({{"TJ_FACTS", "/r/f"}}).facts_from == "TJ_FACTS");
  CHECK(refusal({{"TJ_FACTS", "~/f"}}).find("TJ_FACTS is '~/f'; allowed: a whole path") == 0);
  tj::Options options;
  options.facts_file = "f";
  CHECK(settings({{"TJ_FACTS", "/r"}}, options).facts_file == std::filesystem::current_path() / "f");
  CHECK(settings({{"TJ_FACTS", "/r"}}, options).facts_from == "Options::facts_file");
  options.facts_file = "";
  CHECK(settings({{"TJ_FACTS", "/r"}}, options).facts_file.empty());
}

TEST_CASE("the record: option, variable, none; made absolute") {
  CHECK(settings({}).record_file.empty());
  CHECK(settings({{"TJ_RECORD", "/r//f"}}).record_file == "/r/f");
  tj::Options options;
  options.record_file = "f";
  CHECK(settings({{"TJ_RECORD", "/r"}}, options).record_file == std::filesystem::current_path() / "f");
  options.record_file = "";
  CHECK(settings({{"TJ_RECORD", "/r"}}, options).record_file.empty());
  CHECK(refusal({{"TJ_RECORD", "~/f"}}).find("TJ_RECORD is '~/f'; allowed: a whole path") == 0);
}

TEST_CASE("the cache directory: option, variable, XDG, home, passwd") {
  CHECK(settings({{"HOME", "/h"}}).cache_dir == "/h/.cache/tilejit");
  CHECK(settings({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x/"}}).cache_dir == "/x/tilejit");
  CHECK(settings({{"HOME", "/h"}, {"XDG_CACHE_HOME", "relative"}}).cache_dir == "/h/.cache/tilejit");
  CHECK(settings({{"XDG_CACHE_HOME", "/x"}, {"TJ_CACHE_DIR", "/c//d/"}}).cache_dir == "/c/d");
  CHECK(settings({{"XDG_CACHE_HOME", "/x"}, {"TJ_CACHE_DIR", ""}}).cache_dir == "/x/tilejit");
  tj::Options options;
  options.cache_dir = "/option";
  CHECK(settings({{"TJ_CACHE_DIR", "/c"}}, options).cache_dir == "/option");
  options.cache_dir = "";
  CHECK(settings({{"TJ_CACHE_DIR", "/c"}}, options).cache_dir.empty());

  const passwd* user = ::getpwuid(::geteuid());
  const std::string expected =
      user != nullptr && user->pw_dir[0] == '/'
          ? std::filesystem::path(std::string(user->pw_dir) + "/.cache/tilejit").lexically_normal()
          : std::filesystem::path();
  CHECK(settings({}).cache_dir == expected);
  CHECK(settings({{"HOME", "relative"}}).cache_dir == expected);
}

TEST_CASE("a relative directory is fixed where the process was") {
  const tj::testing::Scratch scratch;
  const std::string before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());
  const std::string here = std::filesystem::current_path();
  const auto resolved = settings({{"TJ_CACHE_DIR", "kernels"}, {"TJ_DUMP_DIR", "./dumps/"}});
  std::filesystem::current_path(before);
  CHECK(resolved.cache_dir == here + "/kernels");
  CHECK(resolved.dump_dir == here + "/dumps");
}

TEST_CASE("a path that a shell should have written out, or that ends within a text, is refused") {
  for (const char* name : {"TJ_CACHE_DIR", "TJ_DUMP_DIR", "TJ_MODEL_REPORT"})
    for (const char* path : {"~", "~/x", "~user/x"}) {
      const std::string message = refusal({{name, path}});
      CAPTURE(message);
      CHECK(message.find(std::string(name) + " is '" + path +
                         "'; allowed: a whole path: '~' is replaced by shells only") == 0);
    }
  CHECK(settings({{"HOME", "/h"}, {"TJ_CACHE_DIR", "/x/~/y"}}).cache_dir == "/x/~/y");
  CHECK(settings({{"TJ_CACHE_DIR", "./~"}}).cache_dir == std::filesystem::current_path().string() + "/~");
  tj::Options options;
  options.cache_dir = std::string("/tmp/a\0b", 8);
  CHECK(refusal({}, options) ==
        "Options::cache_dir is '/tmp/a\\x00b'; allowed: a path without a NUL character. Correct it or leave it unset.");
  options.cache_dir.reset();
  options.dump_dir = "~/dumps";
  CHECK(refusal({}, options).find("Options::dump_dir is '~/dumps'") == 0);
}

TEST_CASE("a value stands in a message on one line, and not whole where it is long") {
  CHECK(refusal({{"TJ_LOG_LEVEL", "warn\n[info] fake"}}).find("TJ_LOG_LEVEL is 'warn\\n[info] fake'; allowed: ") == 0);
  const std::string large = refusal({{"TJ_LOG_LEVEL", std::string(100000, 'x')}});
  CHECK(large.size() < 300);
  CHECK(large.find("xxx... (100000 bytes)'") != std::string::npos);
}

TEST_CASE("a level that is none is refused") {
  tj::Options options;
  for (const int level : {99, -1, 6}) {
    options.log_level = static_cast<tj::LogLevel>(level);
    CHECK(refusal({}, options)
              .find("Options::log_level is '" + std::to_string(level) +
                    "'; allowed: LogLevel::trace (0) to LogLevel::off (5)") == 0);
  }
}

TEST_CASE("the size bound takes suffixes and refuses the rest") {
  const auto bytes = [](const char* text) { return settings({{"TJ_CACHE_MAX_SIZE", text}}).cache_max_size_bytes; };
  CHECK(settings({}).cache_max_size_bytes == std::uint64_t{4} << 30);
  CHECK(bytes("0") == 0);
  CHECK(bytes("1234") == 1234);
  CHECK(bytes("3K") == 3 * 1024);
  CHECK(bytes("3m") == 3 * 1024 * 1024);
  CHECK(bytes("10G") == std::uint64_t{10} << 30);
  CHECK(bytes("18446744073709551615") == 18446744073709551615u);
  CHECK(bytes("17179869183G") == std::uint64_t{17179869183u} << 30);
  for (const char* bad : {"-1", "1.5G", "G", "4GB", "4 G", " 4", "x", "1T", "18446744073709551616", "17179869184G"}) {
    const std::string message = refusal({{"TJ_CACHE_MAX_SIZE", bad}});
    CAPTURE(message);
    CHECK(message.find("TJ_CACHE_MAX_SIZE is '" + std::string(bad) + "'") != std::string::npos);
    CHECK(message.find("512M") != std::string::npos);
  }
  tj::Options options;
  options.cache_max_size_bytes = 7;
  CHECK(settings({{"TJ_CACHE_MAX_SIZE", "nonsense"}}, options).cache_max_size_bytes == 7);
}

TEST_CASE("the bound on loaded code: none by default, the same suffixes, and the option wins") {
  CHECK(settings({}).code_max_size_bytes == 0);
  CHECK(settings({{"TJ_CODE_MAX_SIZE", "64M"}}).code_max_size_bytes == std::uint64_t{64} << 20);
  CHECK(refusal({{"TJ_CODE_MAX_SIZE", "4GB"}}).find("TJ_CODE_MAX_SIZE is '4GB'; allowed: a number of bytes") == 0);
  tj::Options options;
  options.code_max_size_bytes = 7;
  CHECK(settings({{"TJ_CODE_MAX_SIZE", "nonsense"}}, options).code_max_size_bytes == 7);
}

TEST_CASE("log level and HIP compiler are checked words") {
  CHECK(settings({}).log_level == tj::LogLevel::warn);
  CHECK(settings({{"TJ_LOG_LEVEL", "trace"}}).log_level == tj::LogLevel::trace);
  CHECK(settings({{"TJ_LOG_LEVEL", "off"}}).log_level == tj::LogLevel::off);
  CHECK(refusal({{"TJ_LOG_LEVEL", "loud"}}) ==
        "TJ_LOG_LEVEL is 'loud'; allowed: trace, debug, info, warn, error, off. Correct it or leave it unset.");
  CHECK(settings({}).hip_compiler == "auto");
  CHECK(settings({{"TJ_HIP_COMPILER", "clang"}}).hip_compiler == "clang");
  CHECK(refusal({{"TJ_HIP_COMPILER", "gcc"}}).find("TJ_HIP_COMPILER is 'gcc'; allowed: auto, hiprtc, clang") == 0);
  tj::Options options;
  options.log_level = tj::LogLevel::error;
  CHECK(settings({{"TJ_LOG_LEVEL", "loud"}}, options).log_level == tj::LogLevel::error);
  options.hip_compiler = "gcc";
  CHECK(refusal({}, options).find("Options::hip_compiler is 'gcc'") == 0);
}

TEST_CASE("target, dump directory and the disk switch") {
  CHECK(settings({}).target.empty());
  CHECK(settings({}).dump_dir.empty());
  CHECK(settings({}).use_disk_cache);
  CHECK(settings({{"TJ_TARGET", "model:sm_90a"}}).target == "model:sm_90a");
  CHECK(settings({{"TJ_DUMP_DIR", "/d"}}).dump_dir == "/d");
  tj::Options options;
  options.target = "sm_90a";
  options.dump_dir = "";
  options.use_disk_cache = false;
  const auto resolved = settings({{"TJ_TARGET", "other"}, {"TJ_DUMP_DIR", "/d"}}, options);
  CHECK(resolved.target == "sm_90a");
  CHECK(resolved.dump_dir.empty());
  CHECK_FALSE(resolved.use_disk_cache);
}

TEST_CASE("lists are checked where TJ_CHECK or the option says so") {
  CHECK_FALSE(settings({}).check_lists);
  CHECK(settings({{"TJ_CHECK", "1"}}).check_lists);
  CHECK_FALSE(settings({{"TJ_CHECK", "0"}}).check_lists);
  tj::Options options;
  options.check_lists = false;
  CHECK_FALSE(settings({{"TJ_CHECK", "1"}}, options).check_lists);
  CHECK(refusal({{"TJ_CHECK", "yes"}}) == "TJ_CHECK is 'yes'; allowed: 1, 0. Correct it or leave it unset.");
}

TEST_CASE("measured choices are used unless TJ_TUNE or the option says otherwise") {
  CHECK(settings({}).use_tuning);
  CHECK(settings({{"TJ_TUNE", "on"}}).use_tuning);
  CHECK_FALSE(settings({{"TJ_TUNE", "off"}}).use_tuning);
  tj::Options options;
  options.use_tuning = true;
  CHECK(settings({{"TJ_TUNE", "off"}}, options).use_tuning);
  options.use_tuning = false;
  CHECK_FALSE(settings({}, options).use_tuning);
  CHECK(refusal({{"TJ_TUNE", "yes"}}) == "TJ_TUNE is 'yes'; allowed: on, off. Correct it or leave it unset.");
}

TEST_CASE("the answer to a miss is one of three words, by option or variable") {
  using tj::MissPolicy;
  CHECK(settings({}).on_miss == MissPolicy::wait);
  CHECK(settings({{"TJ_ON_MISS", "wait"}}).on_miss == MissPolicy::wait);
  CHECK(settings({{"TJ_ON_MISS", "error"}}).on_miss == MissPolicy::error);
  CHECK(settings({{"TJ_ON_MISS", "quick"}}).on_miss == MissPolicy::quick);
  tj::Options options;
  options.on_miss = MissPolicy::wait;
  CHECK(settings({{"TJ_ON_MISS", "error"}}, options).on_miss == MissPolicy::wait);
  CHECK(refusal({{"TJ_ON_MISS", "fail"}}) ==
        "TJ_ON_MISS is 'fail'; allowed: wait, error, quick. Correct it or leave it unset.");
  options.on_miss = static_cast<MissPolicy>(3);
  CHECK(refusal({}, options).find("Options::on_miss is '3'; allowed: ") == 0);
}

TEST_CASE("the file of packs' keys is a path, by option or variable") {
  CHECK(settings({}).pack_keys.empty());
  CHECK(settings({{"TJ_PACK_KEYS", "/keys/"}}).pack_keys == "/keys");
  tj::Options options;
  options.pack_keys = "";
  CHECK(settings({{"TJ_PACK_KEYS", "/keys"}}, options).pack_keys.empty());
  CHECK(refusal({{"TJ_PACK_KEYS", "~/keys"}}).find("TJ_PACK_KEYS is '~/keys'; allowed: a whole path") == 0);
}

TEST_CASE("the compilers whose packs serve are any, or the own one, by option or variable") {
  using tj::PackCompiler;
  CHECK(settings({}).pack_compiler == PackCompiler::any);
  CHECK(settings({{"TJ_PACK_COMPILER", "own"}}).pack_compiler == PackCompiler::own);
  tj::Options options;
  options.pack_compiler = PackCompiler::any;
  CHECK(settings({{"TJ_PACK_COMPILER", "own"}}, options).pack_compiler == PackCompiler::any);
  CHECK(refusal({{"TJ_PACK_COMPILER", "all"}}) ==
        "TJ_PACK_COMPILER is 'all'; allowed: any, own. Correct it or leave it unset.");
  options.pack_compiler = static_cast<PackCompiler>(2);
  CHECK(refusal({}, options).find("Options::pack_compiler is '2'; allowed: ") == 0);
}

TEST_CASE("limits of waits and compilers are seconds, with parts, and 0 for none") {
  CHECK(settings({}).wait_limit_s == 300);
  CHECK(settings({}).compile_limit_s == 600);
  CHECK(settings({{"TJ_WAIT_LIMIT", "0.25"}, {"TJ_COMPILE_LIMIT", "0"}}).wait_limit_s == 0.25);
  CHECK(settings({{"TJ_COMPILE_LIMIT", "0"}}).compile_limit_s == 0);
  tj::Options options;
  options.wait_limit_s = 7;
  options.compile_limit_s = 8.5;
  CHECK(settings({{"TJ_WAIT_LIMIT", "5"}, {"TJ_COMPILE_LIMIT", "5"}}, options).wait_limit_s == 7);
  CHECK(settings({}, options).compile_limit_s == 8.5);
  for (const char* wrong : {"-1", "1e3", "5s", " 5", "nan", "inf", "1000001", "0x5", "."})
    for (const char* name : {"TJ_WAIT_LIMIT", "TJ_COMPILE_LIMIT"}) {
      CAPTURE(wrong);
      CHECK(refusal({{name, wrong}})
                .find(std::string(name) + " is '" + wrong + "'; allowed: seconds from 0 (no limit) to 1000000") == 0);
    }
  CHECK(settings({{"TJ_WAIT_LIMIT", "1000000"}}).wait_limit_s == 1e6);
  options.wait_limit_s = -1;
  CHECK(refusal({}, options).find("Options::wait_limit_s is '-1'") == 0);
}

TEST_CASE("what only checkers set: a seed, sites and a report, by option or variable") {
  CHECK(!settings({{"HOME", "/h"}}).model.given());
  const auto by_variable = settings({{"TJ_MODEL_SEED", "18446744073709551615"},
                                     {"TJ_MODEL_DISABLE", "3,fmha:4"},
                                     {"TJ_MODEL_WEAKEN", "5"},
                                     {"TJ_MODEL_REPORT", "/r//x"}})
                               .model;
  CHECK(by_variable.given());
  CHECK(by_variable.seed == 18446744073709551615u);
  REQUIRE(by_variable.disabled.size() == 2);
  CHECK(by_variable.disabled[1].kernel == "fmha");
  CHECK(by_variable.disabled[1].id == 4);
  CHECK(by_variable.weakened.size() == 1);
  CHECK(by_variable.report == "/r/x");
  tj::Options options;
  options.model_seed = 7;
  options.model_disable = "";
  options.model_weaken = "x:1";
  options.model_report = "";
  const auto by_option =
      settings({{"TJ_MODEL_SEED", "x"}, {"TJ_MODEL_DISABLE", "3"}, {"TJ_MODEL_WEAKEN", "5"}, {"TJ_MODEL_REPORT", "/r"}},
               options)
          .model;
  CHECK(by_option.seed == 7);
  CHECK(by_option.disabled.empty());
  CHECK(by_option.weakened.at(0).kernel == "x");
  CHECK(by_option.report.empty());
  CHECK(refusal({{"TJ_MODEL_SEED", "-1"}}).find("TJ_MODEL_SEED is '-1'; allowed: ") == 0);
  for (const char* wrong : {":5", "a:", "5x", "a:5:", "5,", "-5"})
    CHECK(refusal({{"TJ_MODEL_DISABLE", wrong}}).find("TJ_MODEL_DISABLE is '") == 0);
  CHECK(settings({{"TJ_MODEL_DISABLE", "a:b:5"}}).model.disabled.at(0).kernel == "a:b");
  CHECK(refusal({{"TJ_MODEL_DISABLE", "a,b"}}).find("TJ_MODEL_DISABLE is 'a'; allowed: ") == 0);
  CHECK(refusal({{"TJ_MODEL_WEAKEN", "4,fmha:0"}})
            .find("TJ_MODEL_WEAKEN is 'fmha:0'; allowed: a site's number from 1 on") ==
        0);  // 0: all primitives without a site
}

TEST_CASE("the environment of a program that is started") {
  const Variables variables({{"TJ_TARGET", "sm_80"}, {"TJ_DUMP_DIR", "/d"}, {"TJ_TARGET_2", "kept"}});
  const auto all =
      tj::support::environment_with({{"TJ_TARGET", "model:sm_90a"}, {"TJ_DUMP_DIR", ""}, {"TJ_MODEL_SEED", "3"}});
  const auto count = [&](const std::string& text) { return std::count(all.begin(), all.end(), text); };
  CHECK(count("TJ_TARGET=model:sm_90a") == 1);
  CHECK(count("TJ_MODEL_SEED=3") == 1);
  CHECK(count("TJ_TARGET=sm_80") == 0);
  CHECK(count("TJ_TARGET_2=kept") == 1);
  ::unsetenv("TJ_TARGET_2");
  CHECK(count("TJ_DUMP_DIR=/d") == 0);
}
