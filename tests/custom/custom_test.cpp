// Protects the refusals of tj::custom, by name, before a compiler is asked. Equal descriptions share a kernel and
// changed ones do not. Also what reaches the driver.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

#include "arch/arch.hpp"
#include "custom/custom.hpp"
#include "custom/sample_kernel.hpp"
#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj;
using test::Machine;
using test::SampleKernel;
using testing::error_of;
using testing::has;

void refuses(const SampleKernel& sample, Stage stage, Code code, const std::string& part) {
  CAPTURE(part);
  const Error error = error_of([&] { read_custom(sample.description); });
  CHECK(error.stage == stage);
  CHECK(error.code == code);
  CHECK_MESSAGE(has(error.message, part), error.message);
}

}  // namespace

TEST_CASE("a description with a mistake is refused by name") {
  for (const char* name :
       {"", "a/b", "..", "a b", "0123456789012345678901234567890123456789012345678901234567890123456789"}) {
    SampleKernel sample;
    sample.description.name = name;
    refuses(sample, Stage::argument, Code::invalid_argument, std::string("name is '") + name + "'");
  }
  SampleKernel stages, slots;
  stages.description.max_stages = -1;
  refuses(stages, Stage::argument, Code::invalid_argument, "max_stages is -1");
  slots.description.max_slots = -2;
  refuses(slots, Stage::argument, Code::invalid_argument, "max_slots is -2");
}

TEST_CASE("a folder without the graph's files is refused by name") {
  SampleKernel absent, empty, clash;
  absent.description.folder = "/nonexistent/bodies";
  refuses(absent, Stage::argument, Code::not_found, "folder '/nonexistent/bodies'");
  absent.description.folder = "";
  refuses(absent, Stage::argument, Code::not_found, "folder ''");
  for (const auto& entry : std::filesystem::directory_iterator(empty.folder())) std::filesystem::remove(entry.path());
  refuses(empty, Stage::argument, Code::not_found, "has no *.cuh");
  empty.write("other.cuh", "");
  refuses(empty, Stage::argument, Code::not_found, "includes 'gemm_gelu.cuh', which neither folder");
  for (const char* name : {"types.cuh", "abi.h"}) {  // the second is one of the model's alone
    clash.write(name, "");
    refuses(clash, Stage::argument, Code::invalid_argument,
            std::string("'") + name + "' is the name of a file of the library");
  }
}

TEST_CASE("a folder with more bytes than node bodies have is refused by the sizes of its files") {
  constexpr std::uintmax_t kMost = 4 << 20;
  SampleKernel sample;
  sample.write("sparse.h", "");
  rlimit limit{};  // mutants are judged under one
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const std::uintmax_t bytes = std::min<std::uintmax_t>(limit.rlim_max, std::uintmax_t{1} << 40);
  std::filesystem::resize_file(sample.folder() + "/sparse.h", bytes);  // reading it would never end
  refuses(sample, Stage::argument, Code::unsupported,
          "'sparse.h' among them has " + std::to_string(bytes) + "; give a folder");
  SampleKernel full;
  std::uintmax_t there = 0;
  for (const auto& entry : std::filesystem::directory_iterator(full.folder()))
    if (entry.path().extension() == ".cuh") there += entry.file_size();
  full.write("rest.h", std::string(kMost - there, ' '));
  CHECK_NOTHROW(read_custom(full.description));
  full.write("rest.h", std::string(kMost - there + 1, ' '));
  refuses(full, Stage::argument, Code::unsupported, "have more than 4194304 bytes");
}

TEST_CASE("a name of the graph that no file has is refused") {
  const auto needs = [](const std::string& word, const std::string& part) {
    SampleKernel sample;
    const std::string path = sample.folder() + "/gemm_gelu.cuh";
    std::string text = testing::read_bytes(path);
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at))
      text.replace(at, word.size(), "x");
    sample.write("gemm_gelu.cuh", text + "\n// " + word + " in a comment\n/* and " + word + " */\n");
    refuses(sample, Stage::argument, Code::not_found, part);
  };
  needs("bias_gelu(", "for node 'bias_gelu.0' the body 'bias_gelu', which no file of folder");
  needs("mma_done", "for node 'mma.0', which runs on the matrix unit, the function 'mma_done'");
  needs("Loader", "for node 'load_a' the context 'Loader'");
  needs("next_tile", "the name 'next_tile'");
  SampleKernel drawn;
  drawn.edit_graph("\"machine\": \"sm_90a\",", "\"machine\": \"sm_90a\", \"walk\": \"dynamic\",");
  drawn.edit("using dev::tile_count;", "");
  refuses(drawn, Stage::argument, Code::not_found, "the name 'tile_count'");
  SampleKernel fast;
  fast.edit_graph("\"copy\": 0, \"async\"",
                  "\"copy\": 0, \"variant\": \"Fast\", \"variant_begin\": \"fast_begin\", \"async\"");
  refuses(fast, Stage::argument, Code::not_found, "for the range of node 'mma.0' the function 'fast_begin'");
}

TEST_CASE("bodies of the library serve a graph whose files include them, also by way of another of them") {
  for (const char* name : {"ops/gemm/tile.cuh", "ops/fmha/sm80_rungs.cuh", "ops/gemm/params.cuh"}) {
    CAPTURE(std::string(name));
    const SampleKernel sample;
    std::string text = testing::read_bytes(sample.folder() + "/gemm_gelu.cuh");
    for (std::size_t at = text.find("next_tile"); at != std::string::npos; at = text.find("next_tile", at))
      text.replace(at, 9, "x");
    sample.write("gemm_gelu.cuh", text + "\n#include \"" + name + "\"\n");
    if (std::string(name) != "ops/gemm/params.cuh")
      CHECK_NOTHROW(read_custom(sample.description));  // sm80_rungs.cuh by sm80.cuh, and that by rows.cuh
    else
      refuses(sample, Stage::argument, Code::not_found, "the name 'next_tile'");
  }
}

TEST_CASE("a graph that no code can be made from is refused") {
  SampleKernel machine, code, broken;
  machine.edit_graph("\"sm_90a\"", "\"hopper\"");
  refuses(machine, Stage::graph, Code::invalid_argument,
          "is for the machine 'hopper (normalised)', which is no target; give machine one of sm_90a");
  machine.edit_graph("\"hopper\"", "\"sm_00\"");
  refuses(machine, Stage::graph, Code::invalid_argument, "machine is 'sm_00'; allowed are hopper, blackwell, sm_90a");
  code.description.graph = R"({"machine": "sm_90a", "instructions": [{"name": "a", "cycles": 1, "fu": "TC"}]})";
  refuses(code, Stage::graph, Code::invalid_argument, "has no 'code'");
  SampleKernel empty;
  empty.edit_graph("\"slot_bytes\": 16384", "\"slot_bytes\": 0");
  refuses(empty, Stage::graph, Code::invalid_argument,
          "values[0].slot_bytes is 0 for a value in shared memory; allowed: 1 to ");
  broken.edit_graph("\"mma.0\"", "\"mma.2\"");
  refuses(broken, Stage::graph, Code::invalid_argument, "edges[");
}

TEST_CASE("a graph for another machine than the target's") {
  const SampleKernel sample;
  arch::Arch other = *arch::find("sm_90a");
  other.name = "sm_other";
  const auto made = read_custom(sample.description);
  const Error error = error_of([&] { made->candidates(made->request(), other); });
  CHECK(error.stage == Stage::target);
  CHECK_MESSAGE(has(error.message, "graph 'gemm_gelu' is for the machine 'sm_90a', the target is 'sm_other'"),
                error.message);
}

TEST_CASE("a graph may be for a target with options: it is scheduled for what they leave, and runs on no other") {
  SampleKernel sample;
  sample.edit_graph("\"sm_90a\"", "\"sm_90a+smem=231424\"");
  const auto made = read_custom(sample.description);
  const auto candidates = made->candidates(made->request(), arch::parse_arch("sm_90a+smem=226K"));
  REQUIRE(candidates.size() == 1);
  CHECK(candidates.front().graph.machine.name == "sm_90a+smem=226K");
  CHECK(candidates.front().graph.machine.memory_bytes.at("SMEM") == 226 * 1024);
  const Error error = error_of([&] { made->candidates(made->request(), *arch::find("sm_90a")); });
  CHECK_MESSAGE(has(error.message, "graph 'gemm_gelu' is for the machine 'sm_90a+smem=226K', the target is 'sm_90a'"),
                error.message);
  SampleKernel wrong;
  wrong.edit_graph("\"sm_90a\"", "\"sm_90a+smem=1000K\"");
  refuses(wrong, Stage::graph, Code::invalid_argument, "machine is 'sm_90a+smem=1000K': ");
  refuses(wrong, Stage::graph, Code::invalid_argument, "allowed are 1K to 227K");
}

TEST_CASE("what a tensor map cannot be of is refused by name") {
  Machine machine;
  Runtime runtime(machine.options());
  const SampleKernel sample;
  const custom::Kernel kernel(runtime, sample.description);
  const Tensor good = test::tensor_at(0, DType::f16, test::Layout::bhsd, 1, 1, 300, 128);
  const auto refused = [&](const Tensor& tensor, const custom::Box& box, const char* part) {
    const Error error = error_of([&] { kernel.tensor_map(tensor, box); });
    CHECK(error.stage == Stage::argument);
    CHECK_MESSAGE(has(error.message, part), error.message);
  };
  kernel.tensor_map(good, {{1, 1, 128, 64}});
  Tensor bad = good;
  bad.rank = 0;
  refused(bad, {{1, 1, 128, 64}}, "tensor has rank 0");
  bad = good;
  bad.shape[2] = 0;
  refused(bad, {{1, 1, 128, 64}}, "tensor.shape[2] is 0");
  bad = good;
  bad.strides[3] = 2;
  refused(bad, {{1, 1, 128, 64}}, "tensor.strides[3] is 2");
  bad = good;
  bad.strides[2] = 127;
  refused(bad, {{1, 1, 128, 64}}, "stride_bytes[1] is 254");
  bad = good;
  bad.data = static_cast<char*>(good.data) + 2;
  refused(bad, {{1, 1, 128, 64}}, "base is");
  refused(good, {{1, 1, 257, 64}}, "box.shape[2] is 257");
  refused(good, {{1, 1, 128}}, "box.shape[3] is 0");
  refused(good, {{1, 1, 128, 128}}, "box[0] in bytes is 256");
  refused(good, {{1, 1, 128, 64}, 100}, "box.swizzle_bytes is 100; allowed: 0 (none), 32, 64, 128");
  refused(good, {{1, 1, 128, 64}, -1}, "box.swizzle_bytes is -1");
  bad = good;
  bad.dtype = static_cast<DType>(77);
  refused(bad, {{1, 1, 128, 64}}, "tensor.dtype is 77; allowed: f16, bf16, f32, i32, e4m3");
  bad = good;
  bad.device.kind = static_cast<DeviceKind>(9);
  refused(bad, {{1, 1, 128, 64}}, "tensor.device.kind is 9; allowed: 0 (cpu), 1 (cuda), 2 (hip)");
}

TEST_CASE("a tensor map counts from the innermost dimension; a dimension of one has a stride that its kind allows") {
  Tensor tensor = test::tensor_at(0, DType::f32, test::Layout::bhsd, 5, 6, 7, 12);
  const support::TensorMapDesc plain = describe(tensor, {{2, 3, 4, 8}, 32});
  CHECK(plain.base == tensor.data);
  CHECK(plain.rank == 4);
  CHECK(plain.swizzle_bytes == 32);
  const std::array<std::uint64_t, 4> dims = {12, 7, 6, 5}, strides = {4, 48, 336, 2016};
  const std::array<std::uint32_t, 4> box = {8, 4, 3, 2};
  CHECK(std::equal(dims.begin(), dims.end(), plain.dims.begin()));
  CHECK(std::equal(box.begin(), box.end(), plain.box.begin()));
  CHECK(std::equal(strides.begin(), strides.end(), plain.stride_bytes.begin()));
  // A dimension that is not counted: the next multiple of 16 behind all that lies further in.
  tensor.shape = {1, 6, 1, 3};
  tensor.strides = {-9, 100, -8, 1};
  const support::TensorMapDesc ones = describe(tensor, {{1, 1, 1, 1}});
  const std::array<std::uint64_t, 4> made = {4, 16, 400, 2400};
  CHECK(std::equal(made.begin(), made.end(), ones.stride_bytes.begin()));
  tensor.strides = {-9, 0, -8, 1};  // the same row six times
  CHECK(describe(tensor, {{1, 1, 1, 1}}).stride_bytes[3] == 16);
  tensor.strides[1] = -1;
  CHECK(error_of([&] { describe(tensor, {{1, 1, 1, 1}}); }).message ==
        "tensor.strides[1] is -1; it must not be negative");
  tensor.shape[3] = 1;
  tensor.strides = {-9, 100, -8, -7};
  CHECK(describe(tensor, {{1, 1, 1, 1}}).stride_bytes[0] == 4);
  for (const int size : {1, 256}) CHECK_NOTHROW(describe(tensor, {{1, 1, 1, size}}));
  for (const int size : {0, -1, 257})
    CHECK(error_of([&] { describe(tensor, {{1, 1, 1, size}}); }).message ==
          "box.shape[3] is " + std::to_string(size) + "; allowed are 1 to 256");
  for (const int rank : {-1, 0, kMaxRank + 1}) {
    tensor.rank = rank;
    CHECK(error_of([&] { describe(tensor, {{1, 1, 1, 1}}); }).message ==
          "tensor has rank " + std::to_string(rank) + "; allowed are 1 to " + std::to_string(kMaxRank));
  }
}

TEST_CASE("equal descriptions share a kernel, changed ones do not") {
  Machine machine;
  const Device gpu{DeviceKind::cuda, 0};
  const SampleKernel sample;
  {
    Runtime runtime(machine.options());
    const custom::Kernel first(runtime, sample.description);
    CHECK(machine.nvrtc.compiles() == 0);
    const KernelReport report = first.prepare(gpu);
    CHECK(report.origin == KernelOrigin::compiled);
    CHECK(report.name == "gemm_gelu");
    CHECK(report.target == "sm_90a");
    CHECK(has(report.schedule_json, "\"mma.1\""));
    CHECK(first.prepare(gpu).origin == KernelOrigin::memory);
    CHECK(custom::Kernel(runtime, sample.description).prepare(gpu).origin == KernelOrigin::memory);
    CHECK(machine.nvrtc.compiles() == 1);
  }
  Runtime runtime(machine.options());
  CHECK(custom::Kernel(runtime, sample.description).prepare(gpu).origin == KernelOrigin::disk);
  const auto compiles_anew = [&](const custom::Description& description) {
    const int before = machine.nvrtc.compiles();
    CHECK(custom::Kernel(runtime, description).prepare(gpu).origin == KernelOrigin::compiled);
    CHECK(machine.nvrtc.compiles() == before + 1);
  };
  custom::Description changed = sample.description;
  changed.max_slots = 2;
  compiles_anew(changed);
  changed = sample.description;
  changed.turns = false;
  compiles_anew(changed);
  changed = sample.description;
  changed.name = "other";
  compiles_anew(changed);
  changed = sample.description;
  changed.graph += " ";  // another description, but no byte that the compiler reads is another
  const int compiled = machine.nvrtc.compiles();
  CHECK(custom::Kernel(runtime, changed).prepare(gpu).origin == KernelOrigin::disk);
  CHECK(machine.nvrtc.compiles() == compiled);
  sample.edit("0.044715f", "0.044714f");
  compiles_anew(sample.description);
  sample.write("unused.cuh", "");  // another folder, but the unit includes no other file
  const int before = machine.nvrtc.compiles();
  CHECK(custom::Kernel(runtime, sample.description).prepare(gpu).origin == KernelOrigin::disk);
  CHECK(machine.nvrtc.compiles() == before);
  sample.write("notes.txt", "not a template");
  CHECK(custom::Kernel(runtime, sample.description).prepare(gpu).origin == KernelOrigin::memory);
}

TEST_CASE("what is launched, and what is not") {
  Machine machine;
  Runtime runtime(machine.options());
  const Device gpu{DeviceKind::cuda, 0};
  const SampleKernel sample;
  const custom::Kernel kernel(runtime, sample.description);
  machine.cuda.set_param_bytes(sizeof(sample::gemm_gelu::Params));
  sample::gemm_gelu::Params params{};
  kernel.launch(gpu, params, 7);
  CHECK(test::count_calls(machine.cuda, "cuLaunchKernelEx") == 1);
  const auto refused = [&](const char* part, auto&& launch) {
    const Error error = error_of(launch);
    CHECK(error.stage == Stage::argument);
    CHECK(error.code == Code::invalid_argument);
    CHECK_MESSAGE(has(error.message, part), error.message);
  };
  refused("params of 'gemm_gelu' is of 4 bytes; the kernel's params_type has", [&] { kernel.launch(gpu, 4, 1); });
  refused("params of 'gemm_gelu' is null", [&] { kernel.launch_bytes(gpu, nullptr, sizeof(params), 1); });
  refused("blocks of 'gemm_gelu' is 0; allowed: 1 to 2147483647", [&] { kernel.launch(gpu, params, 0); });
  refused("blocks of 'gemm_gelu' is 2147483648", [&] { kernel.launch(gpu, params, 1u << 31); });
  const Device fourth{static_cast<DeviceKind>(9), 0};
  refused("device.kind is 9; allowed: 0 (cpu), 1 (cuda), 2 (hip)", [&] { kernel.launch(fourth, params, 1); });
  refused("device.kind is 9", [&] { kernel.prepare(fourth); });
  refused("device.kind is 9", [&] { kernel.sm_count(fourth); });
  CHECK(test::count_calls(machine.cuda, "cuLaunchKernelEx") == 1);
  CHECK(kernel.sm_count(gpu) > 0);
  CHECK(error_of([&] { kernel.launch({DeviceKind::cuda, 99}, params, 1); }).code == Code::invalid_argument);
}

TEST_CASE("an unprepared kernel in a capture, and a graph without a schedule") {
  Machine machine;
  Runtime runtime(machine.options());
  const Device gpu{DeviceKind::cuda, 0};
  SampleKernel sample;
  const custom::Kernel cold(runtime, sample.description);
  machine.cuda.set_capture(1);
  CHECK(error_of([&] { cold.launch(gpu, sample::gemm_gelu::Params{}, 1); }).code == Code::cold_in_capture);
  machine.cuda.set_capture(0);
  sample.edit_graph("\"slot_bytes\": 32768, \"min_slots\": 2", "\"slot_bytes\": 131072, \"min_slots\": 2");
  const Error error = error_of([&] { custom::Kernel(runtime, sample.description).prepare(gpu); });
  CHECK(error.stage == Stage::schedule);
  CHECK_MESSAGE(has(error.message, "gemm_gelu"), error.message);
  CHECK(machine.nvrtc.compiles() == 0);
}
