// Protects targets with options: what each takes away, and that nothing is ever added. The same options give one name
// and one arch; a refusal names the option.
#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "ops/common/machine.hpp"
#include "ops/op.hpp"
#include "support/expect.hpp"

using namespace tj;
using testing::has;

namespace {

const arch::Arch& of(const std::string& text) { return *arch::parse_target(text).arch; }

std::string refusal(const std::string& text) {
  const Error error = testing::error_of([&] { arch::parse_target(text); });
  CHECK(error.stage == Stage::target);
  CHECK(error.code == Code::invalid_argument);
  CHECK_MESSAGE(has(error.message, text.substr(text.find(':') + 1)), error.message);
  return error.message;
}

}  // namespace

TEST_CASE("the same options are the same arch, under one name, in any order") {
  const arch::Arch& arch = of("sm_90+copies=threads+smem=99K");
  CHECK(arch.name == "sm_90+copies=threads+smem=99K");
  for (const char* text : {"sm_90+smem=99K+copies=threads", "sm_90+smem=101376+copies=threads",
                           "sm_90+copies=threads+smem=99k", "model:sm_90+smem=99K+copies=threads"}) {
    CAPTURE(text);
    CHECK(&of(text) == &arch);
  }
  CHECK(arch::parse_target("model:sm_90+smem=99K").name() == "model:sm_90+smem=99K");
  CHECK(arch::parse_target("model:sm_90+smem=99K").model);
  CHECK(of("sm_90+smem=100480").name == "sm_90+smem=100480");
  CHECK(of("sm_90+smem=100352").name == "sm_90+smem=98K");
  CHECK(arch::find("sm_90+copies=threads+smem=99K") == &arch);
  CHECK(arch::find("sm_90+smem=97K") == nullptr);  // nobody has asked for it
}

TEST_CASE("an option that takes nothing away leaves the arch itself") {
  for (const char* text : {"sm_90+copies=engine", "sm_90+smem=227K", "sm_90+smem=232448+copies=engine"})
    CHECK(&of(text) == arch::find("sm_90"));
  CHECK(&of("sm_80+copies=threads") == arch::find("sm_80"));
  CHECK(of("sm_80+copies=threads+smem=99K").name == "sm_80+smem=99K");
}

TEST_CASE("copies by threads: no copy engine, and nothing that came with it") {
  const arch::Arch &base = *arch::find("sm_120a"), &arch = of("sm_120a+copies=threads"), &before = *arch::find("sm_86");
  CHECK_FALSE(arch.has_unit("TMA"));
  CHECK(arch.units.size() + 1 == base.units.size());
  CHECK(arch.primitives == before.primitives);
  CHECK(arch.family == base.family);
  CHECK(arch.max_cluster == before.max_cluster);
  CHECK(arch.overlapped_launch == before.overlapped_launch);
  CHECK(arch.register_roles == before.register_roles);
  CHECK(arch.smem_per_block_bytes == base.smem_per_block_bytes);
  const arch::Arch &engine = *arch::find("sm_90"), &threads = of("sm_90+copies=threads");
  for (const char* fact : {"copy_latency_cycles", "copy_cycles_per_kb", "sustained_copy_bytes_per_cycle"})
    CHECK_FALSE(threads.has_fact(fact));
  for (const char* fact : {"thread_copy_latency_cycles", "thread_copy_cycles_per_kb"}) CHECK(threads.has_fact(fact));
  for (const auto& fact : threads.facts) CHECK(engine.fact(fact.first) == fact.second.value);
}

TEST_CASE(
    "a cap on a block's shared memory leaves the SM its own; one on the SM's leaves blocks what a card has that has no "
    "more") {
  const arch::Arch &base = *arch::find("sm_90"), &arch = of("sm_90+smem=99K"), &all = of("sm_90+smem-sm=100K"),
                   &card = *arch::find("sm_120a");
  CHECK(arch.smem_per_block_bytes == card.smem_per_block_bytes);
  CHECK(arch.smem_per_sm_bytes == base.smem_per_sm_bytes);
  CHECK(arch.smem_reserved_bytes == base.smem_reserved_bytes);
  CHECK(arch.primitives == base.primitives);
  CHECK(arch.has_unit("TMA"));
  CHECK(of("sm_90a+smem=160K").smem_per_block_bytes == 160 * 1024);  // of every family
  for (const int blocks : {1, 2, 3})
    CHECK(ops::machine_of(all, blocks).memory_bytes == ops::machine_of(card, blocks).memory_bytes);
  CHECK(ops::machine_of(arch, 2).memory_bytes.at("SMEM") == 99 * 1024);  // two of them find room
  CHECK(&of("sm_90+smem=99K+smem-sm=100K") == &all);                     // says nothing more
  CHECK(of("sm_90+smem-sm=100K+smem=64K").name == "sm_90+smem=64K+smem-sm=100K");
  CHECK(&of("sm_90+smem-sm=228K") == &base);
  for (const arch::Arch* each : arch::all()) {
    CAPTURE(each->name);
    const arch::Arch& least = of(each->name + "+smem=1K");
    CHECK(least.smem_per_sm_bytes >= least.smem_per_block_bytes + least.smem_reserved_bytes);
  }
}

TEST_CASE(
    "an op that runs on an arch runs on what options leave of it, and on every arch that is said to be of its kind") {
  const auto refused = [](const ops::Op& op, const std::string& target) -> std::string {
    try {
      for (const ops::Candidate& candidate : op.candidates(op.requests({}).front(), of(target)))
        CHECK(candidate.graph.machine.name == target);
    } catch (const Error& e) {
      return e.message;
    }
    return {};
  };
  for (const ops::Op* op : ops::all()) {
    CAPTURE(op->name());
    if (!refused(*op, "sm_90").empty()) continue;
    for (const char* target :
         {"sm_90+copies=threads", "sm_90+smem=99K", "sm_90+copies=threads+smem=99K", "sm_80+smem=99K", "sm_86", "sm_89",
          "sm_100", "sm_103", "sm_110", "sm_120a", "sm_121a"}) {
      CAPTURE(target);
      CHECK(refused(*op, target) == "");
    }
  }
}

TEST_CASE("the compiler, devices and files know the arch by names of their own") {
  const arch::Arch& arch = of("sm_90+copies=threads+smem=99K");
  CHECK(arch.compiler_name() == "sm_90");
  CHECK(arch.file_name() == "sm_90-copies-threads-smem-99K");
  CHECK(arch::find("sm_90a")->compiler_name() == "sm_90a");
  CHECK(arch::find("sm_90a")->file_name() == "sm_90a");
  CHECK(arch::same_devices(arch, *arch::find("sm_90a")));
  CHECK(arch::for_device("nvidia", 9, 0) == arch::find("sm_90a"));  // what was made serves no device by itself
  for (const arch::Arch* each : arch::all()) CHECK(each->base.empty());
}

TEST_CASE("what is no option, or more than there is, is refused by name with what is allowed") {
  CHECK(has(refusal("sm_90+smem=228K"),
            "smem is '228K'; 'sm_90' has 227K a block, and a cap only takes away: allowed are 1K to 227K"));
  for (const char* value : {"0", "512", "99.5K", "99KB", "-1K", "", "K", "+99K", "100", "101377",
                            "99999999999999999999", "99999999999999999K", "0x10K", " 99K"}) {
    CAPTURE(value);
    const std::string text = std::string("sm_90+smem=") + value;
    CHECK(has(refusal(text), "target '"));
  }
  CHECK(has(refusal("model:sm_90+smem=1M"), "smem is '1M'"));
  CHECK(has(refusal("sm_90+smem-sm=229K"),
            "smem-sm is '229K'; 'sm_90' has 228K an SM, and a cap only takes away: allowed are 1K to 228K"));
  CHECK(has(refusal("sm_90+smem-sm=1K"), "smem-sm is 1K, of which a block's 1K are the system's"));
  CHECK(has(refusal("sm_90a+copies=threads"), "'sm_90a' is of family 'sm90'"));
  CHECK(has(refusal("sm_80+copies=engine"), "'sm_80' has no copy engine"));
  CHECK(has(refusal("sm_90+copies=both"), "copies is 'both'; allowed are threads and engine"));
  CHECK(has(refusal("sm_90+copies"), "copies is ''"));
  CHECK(has(refusal("sm_90+smem=99K+smem=98K"), "option 'smem' is given twice"));
  for (const char* text : {"sm_90+", "sm_90++smem=99K", "sm_90+clusters=1", "sm_90+smem=99K+"}) {
    CAPTURE(text);
    const std::string message = refusal(text);
    CHECK(has(message, "is unknown"));
    CHECK(has(message, "copies=threads"));
    CHECK(has(message, "smem=<n>K"));
  }
  for (const char* text : {"+smem=99K", "model:model:sm_90+smem=99K", "sm_90,smem=99K"}) {
    CAPTURE(text);
    CHECK(has(refusal(text), "is unknown; allowed are sm_90a"));
  }
  CHECK(has(refusal("sm_91+smem=99K"),
            "'sm_91+smem=99K' is unknown: compute capability 9.1 is not known to this version"));
  CHECK(has(refusal("sm_90 +smem=99K"), "is unknown; did you mean 'sm_90a'? Allowed are sm_90a"));
  CHECK(has(refusal("sm_90+smme=99K"), "did you mean 'smem'?"));
}

TEST_CASE("threads that ask for the same options at once get the same arch") {
  std::vector<const arch::Arch*> found(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < found.size(); ++i)
    threads.emplace_back([&, i] {
      for (int kilobytes = 1; kilobytes < 99; ++kilobytes) of("sm_121a+smem=" + std::to_string(kilobytes) + "K");
      found[i] = &of(i % 2 == 0 ? "sm_121a+smem=50K+copies=threads" : "sm_121a+copies=threads+smem=51200");
    });
  for (std::thread& thread : threads) thread.join();
  for (const arch::Arch* arch : found) CHECK(arch == found.front());
}

TEST_CASE("code=ptx: the same text for a virtual arch, without what one generation alone has") {
  const arch::Arch &base = *arch::find("sm_120a"), &ptx = of("sm_120a+code=ptx");
  CHECK(ptx.compiler_name() == "compute_120");
  CHECK(ptx.primitives == base.primitives);
  CHECK_FALSE(ptx.register_roles);
  CHECK(ptx.has_unit("TMA"));
  CHECK(&of("sm_120a+smem=64K+code=ptx") == &of("sm_120a+code=ptx+smem=64K"));
  CHECK(of("sm_120a+code=ptx+smem=64K").compiler_name() == "compute_120");
  CHECK_FALSE(arch::same_devices(base, ptx));
  CHECK(arch::runs_on(ptx, base));
  CHECK(arch::runs_on(of("sm_80+code=ptx"), *arch::find("sm_90a")));
  CHECK_FALSE(arch::runs_on(ptx, *arch::find("sm_90a")));
  CHECK_FALSE(arch::runs_on(base, ptx));
  CHECK(arch::as_ptx(base) == &ptx);
  CHECK(arch::as_ptx(*arch::find("sm_90a")) == nullptr);
  CHECK(arch::as_ptx(*arch::find("gfx1100")) == nullptr);
  for (const char* text : {"sm_90a+code=ptx", "sm_100a+code=ptx", "gfx1100+code=ptx"}) {
    const std::string message = refusal(text);
    CHECK_MESSAGE(has(message, "PTX is for family 'sm80'"), message);
  }
  CHECK(has(refusal("sm_90+code=sass"), "code is 'sass'; allowed is ptx"));
}

TEST_CASE("a device newer than all that are known takes PTX of the closest one, within its own shared memory") {
  constexpr std::int64_t kMuch = std::int64_t{1} << 20;
  const auto name = [](int major, int minor, std::int64_t smem) {
    const arch::Arch* found = arch::for_newer_device("nvidia", major, minor, smem);
    return found != nullptr ? found->name : std::string();
  };
  CHECK(name(13, 0, kMuch) == "sm_120a+code=ptx");
  CHECK(name(12, 5, 99 * 1024) == "sm_120a+code=ptx");
  CHECK(name(10, 7, kMuch) == "sm_100+code=ptx");
  CHECK(name(10, 7, 100 * 1024 + 5) == "sm_100+code=ptx+smem=100K");
  CHECK(name(7, 5, kMuch).empty());
  CHECK(name(8, 0, kMuch).empty());
  CHECK(arch::for_newer_device("amd", 13, 0, kMuch) == nullptr);
}
