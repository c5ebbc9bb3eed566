// Protects: registers, spills and warnings are read out of the assembler's log, and the version rule that keeps an old
// hiprtc from ending the process.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "compile/compile_log.hpp"
#include "compile/hip_version.hpp"
#include "support/made_code_object.hpp"

namespace {

using tj::compile::Binary;

TEST_CASE("registers are the most of any entry, spills the sum") {
  Binary binary;
  binary.log =
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'a' for 'sm_90a'\n"
      "ptxas         .     1024 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 2 barriers\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 32 registers, used 0 barriers";
  tj::compile::read_ptxas_log(binary);
  CHECK(binary.registers == 168);
  CHECK(binary.spill_bytes == 40);
  REQUIRE(binary.warnings.size() == 1);
  CHECK(binary.warnings[0].find("16 bytes spill stores") != std::string::npos);
}

TEST_CASE("serialised matrix instructions are warnings") {
  Binary binary;
  binary.log =
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n"
      "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized\n"
      "ptxas info    : Used 90 registers\n";
  tj::compile::read_ptxas_log(binary);
  CHECK(binary.warnings.size() == 2);
  CHECK(binary.registers == 90);
  for (const std::string line : {"(C7510)", "(C7512)", "Serialization of products", "products are Serialized",
                                 "0 bytes spill stores, 4 bytes spill loads", "8 bytes spill stores"}) {
    Binary one;
    one.log = "ptxas info    : Used 90 registers\n" + line;
    tj::compile::read_ptxas_log(one);
    CHECK(one.warnings == std::vector<std::string>{line});
  }
  Binary none;
  none.log = "(C7511)\nproducts in series\n0 bytes spill stores, 0 bytes spill loads\n";
  tj::compile::read_ptxas_log(none);
  CHECK(none.warnings.empty());
}

TEST_CASE("a log of another wording gives zeros") {
  Binary binary;
  binary.log = "all is well\n registers\n\n";
  tj::compile::read_ptxas_log(binary);
  CHECK(binary.registers == 0);
  CHECK(binary.spill_bytes == 0);
  CHECK(binary.warnings.empty());
}

TEST_CASE("the first error line is found") {
  CHECK(tj::compile::first_error("x.cu(3): warning: odd\nx.cu(7): error: no\nx.cu(9): error: nor this\n") ==
        "x.cu(7): error: no");
  CHECK(tj::compile::first_error("\n  \nnothing known\n") == "nothing known");
  CHECK(tj::compile::first_error("") == "");
  CHECK(tj::compile::first_error(" \t\r\nx.cu(7) : error : no\nerror: nor this") == "x.cu(7) : error : no");
  CHECK(tj::compile::first_error("warning: odd\nfatal: no memory\nerror: that too") == "fatal: no memory");
  CHECK(tj::compile::first_error("terror\nan error\n") == "terror");
  CHECK(tj::compile::first_error(std::string(1000, 'e')) == std::string(1000, 'e'));
  CHECK(tj::compile::first_error(std::string(1001, 'e')) == std::string(1000, 'e') + "... (1001 bytes)");
}

TEST_CASE("numbers are whole, up to nine digits, wherever in their line they stand") {
  const auto registers = [](const std::string& log) {
    Binary binary;
    binary.log = log;
    tj::compile::read_ptxas_log(binary);
    return binary.registers;
  };
  CHECK(registers("24 registers") == 24);
  CHECK(registers("1x24 registers, 99 registers\n7 registers\n") == 24);
  CHECK(registers("Used 999999990 registers") == 999999990);
  CHECK(registers("Used 1000000005 registers") == 100000000);
}

TEST_CASE("an old hiprtc is not asked for what ends the process") {
  const auto refuse = [](int major, int minor, const char* arch) {
    tj::compile::refuse_aborting_arch({major, minor}, arch, "/opt/libhiprtc.so.5");
  };
  refuse(5, 2, "gfx90a");
  refuse(5, 2, "gfx1030");
  refuse(5, 2, "gfx90a:sramecc+:xnack-");
  refuse(7, 0, "gfx9999");  // the newest that is known of: it may know more than this table
  CHECK_THROWS_WITH_AS(refuse(6, 4, "gfx9999"), doctest::Contains("6.4"), tj::Error);
  refuse(5, 5, "gfx1100");
  refuse(6, 0, "gfx942");
  CHECK_THROWS_WITH_AS(refuse(5, 2, "gfx1100"), doctest::Contains("5.5"), tj::Error);
  CHECK_THROWS_WITH_AS(refuse(5, 7, "gfx942"), doctest::Contains("gfx942"), tj::Error);
  CHECK_THROWS_WITH_AS(refuse(6, 4, "gfx950"), doctest::Contains("7.0"), tj::Error);
}

TEST_CASE("a code object says itself what it uses; spills are warnings; other bytes say nothing") {
  Binary binary;
  binary.log = "a remark of the compiler";
  binary.bytes = tj::testing::made_code_object("gfx1100", "kernel", 16, 128, 4096);
  tj::compile::read_code_object_use(binary);
  CHECK(binary.registers == 64);
  CHECK(binary.spill_bytes == 0);
  CHECK(binary.warnings.empty());
  CHECK_MESSAGE(binary.log.starts_with("a remark of the compiler\nkernel on gfx1100: 64 VGPRs, 32 SGPRs, 4096 bytes of "
                                       "LDS, 128 threads in waves of 32, "),
                binary.log);

  Binary spilled;
  spilled.bytes = tj::testing::made_code_object("gfx1100", "kernel", 16, 128, 4096, 12);
  tj::compile::read_code_object_use(spilled);
  CHECK(spilled.spill_bytes == 12);
  REQUIRE(spilled.warnings.size() == 1);
  CHECK(spilled.warnings[0].find("12 bytes of scratch memory a lane") != std::string::npos);

  Binary other;
  other.bytes = "\177ELF but not of AMD";
  tj::compile::read_code_object_use(other);
  CHECK(other.registers == 0);
  CHECK(other.log.empty());
}

TEST_CASE("the file's name bounds the version that hiprtc claims") {
  using tj::compile::HipVersion;
  CHECK(tj::compile::bounded_by_file_name({9, 0}, "/lib/libhiprtc.so.5") == HipVersion{5, 0});
  CHECK(tj::compile::bounded_by_file_name({6, 2}, "/lib/libhiprtc.so.6") == HipVersion{6, 2});
  CHECK(tj::compile::bounded_by_file_name({6, 2}, "/lib/libhiprtc.so") == HipVersion{6, 2});
}

}  // namespace
