// Protects what a user reads when something fails: stage first, message whole, place of the dump, and value semantics.
#include <tilejit/error.hpp>

#include <doctest/doctest.h>

#include <exception>
#include <set>
#include <string>

#include "support/fail.hpp"

TEST_CASE("fail() throws an Error that carries everything") {
  try {
    tj::support::fail(tj::Stage::compile, tj::Code::compile_failed, "no such type", "line 1", "/tmp/x.cu");
    FAIL("did not throw");
  } catch (const std::exception& caught) {
    const auto* error = dynamic_cast<const tj::Error*>(&caught);
    REQUIRE(error != nullptr);
    CHECK(error->stage == tj::Stage::compile);
    CHECK(error->code == tj::Code::compile_failed);
    CHECK(error->message == "no such type");
    CHECK(error->log == "line 1");
    CHECK(error->source_path == "/tmp/x.cu");
    CHECK(std::string(error->what()) == "compile: no such type (source and log: /tmp/x.cu)");
  }
}

TEST_CASE("an Error outlives the one it was copied from") {
  auto* first = new tj::Error(tj::Stage::load, tj::Code::io, std::string(100, 'm'));
  tj::Error copy(*first);
  tj::Error assigned(tj::Stage::model, tj::Code::deadlock, "");
  assigned = *first;
  delete first;
  CHECK(std::string(copy.what()) == "load: " + std::string(100, 'm'));
  CHECK(std::string(assigned.what()) == copy.what());
}

TEST_CASE("stages and codes have distinct names, and a foreign value does not crash") {
  std::set<std::string> stages, codes;
  for (int i = 0; i < 10; ++i) stages.insert(tj::to_string(static_cast<tj::Stage>(i)));
  for (int i = 1; i <= 11; ++i) codes.insert(tj::to_string(static_cast<tj::Code>(i)));
  CHECK(stages.size() == 10);
  CHECK(codes.size() == 11);
  CHECK(stages.count("unknown") + codes.count("unknown") == 0);
  CHECK(std::string(tj::to_string(static_cast<tj::Stage>(99))) == "unknown");
  CHECK(std::string(tj::to_string(static_cast<tj::Code>(99))) == "unknown");
}
