// Protects: a file of the model's reports that is a pipe makes nobody wait.
#include "model_reports.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "support/log.hpp"
#include "support/scratch.hpp"

namespace {

tj::support::ModelSettings reports_to(const std::string& file) {
  tj::support::ModelSettings settings;
  settings.report = file;
  return settings;
}

TEST_CASE("a report file that is a pipe without a reader is refused at once") {
  const tj::testing::Scratch scratch;
  const std::string pipe = scratch / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int status = tj::testing::wait_for(tj::testing::start_child([&] {
    ::alarm(60);  // for an open that waits for ever
    try {
      (void)tj::open_reporting_model(reports_to(pipe), {tj::LogLevel::off, {}});
      return 1;
    } catch (const tj::Error& e) {
      return e.message.find("/pipe': No such device or address; allowed: a file") != std::string::npos ? 0 : 2;
    }
  }));
  CHECK(status == 0);
}

}  // namespace
