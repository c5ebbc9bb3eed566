// Protects runtimes with several layers of cache: a kernel of a layer that is only searched is loaded and compiled by
// nobody; one that does not serve is made anew into the written layer, once, and the layer stays as it is.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cache/cache.hpp"
#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::KernelOrigin;
using tj::Runtime;

constexpr tj::Device kFirstGpu{tj::DeviceKind::cuda, 0};

/// An image's layer with the kernels of causal attention, and a layer of the user's own.
struct LayeredMachine : Machine {
  std::string image = scratch / "image", own = scratch / "own";
  LayeredMachine() {
    tj::Options first = options();
    first.cache_dir = image;
    Runtime(first).prepare(config_of(true), kFirstGpu);
  }
  tj::Options layered() {
    tj::Options options = this->options();
    options.cache_dir = own + ":" + image;
    return options;
  }
  std::size_t entries(const std::string& directory) const {
    return std::filesystem::exists(directory) ? tj::cache::Store(directory, 0, {}).list().size() : 0;
  }
};

TEST_CASE("kernels of a layer are loaded; new ones go to the written layer") {
  LayeredMachine machine;
  const int compiled = machine.nvrtc.compiles();
  const std::size_t in_image = machine.entries(machine.image);
  Runtime runtime(machine.layered());
  CHECK(runtime.prepare(config_of(true), kFirstGpu).origin == KernelOrigin::disk);
  CHECK(machine.nvrtc.compiles() == compiled);
  CHECK(machine.entries(machine.own) == 0);
  CHECK(runtime.prepare(config_of(true, 64), kFirstGpu).origin == KernelOrigin::compiled);
  CHECK(machine.nvrtc.compiles() > compiled);
  CHECK(machine.entries(machine.own) > 0);
  CHECK(machine.entries(machine.image) == in_image);
  CHECK(machine.warnings.empty());
}

TEST_CASE("two caches that are filled alike have the same bytes") {
  LayeredMachine machine;
  tj::Options again = machine.options();
  again.cache_dir = machine.own;
  Runtime(again).prepare(config_of(true), kFirstGpu);
  std::size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(machine.image)) {
    const std::string name = file.path().filename().string();
    if (!name.ends_with(".tjk")) continue;
    CHECK_MESSAGE(tj::testing::read_bytes(file.path().string()) == tj::testing::read_bytes(machine.own + "/" + name),
                  name);
    ++files;
  }
  CHECK(files == machine.entries(machine.own));
  CHECK(files >= 2);
}

TEST_CASE("an entry of a layer without the fields of a kernel is made anew once, for all later runtimes") {
  LayeredMachine machine;
  for (const tj::cache::ListedEntry& listed : tj::cache::Store(machine.image, 0, {}).list()) {
    if (listed.alias) continue;
    tj::cache::Entry entry = *listed.entry;
    std::erase_if(entry.metadata, [](const auto& field) { return field.first == "threads"; });
    const std::string name = listed.path.substr(listed.path.rfind('/') + 1);
    const tj::cache::Key key{name.substr(0, 64), name.substr(65, 64)};
    REQUIRE(tj::cache::Store(machine.image, 0, {}).store(key, entry));
  }
  const int before = machine.nvrtc.compiles();
  CHECK(Runtime(machine.layered()).prepare(config_of(true), kFirstGpu).origin == KernelOrigin::compiled);
  const int after = machine.nvrtc.compiles();
  CHECK(after > before);
  CHECK(Runtime(machine.layered()).prepare(config_of(true), kFirstGpu).origin == KernelOrigin::disk);
  CHECK(machine.nvrtc.compiles() == after);
}

TEST_CASE("measured choices of a layer are taken, also of a pack, under their driver; one of here goes before") {
  LayeredMachine machine;
  machine.cuda.set_param_bytes(0);
  machine.cuda.set_block_ms(0.001);
  const auto matrix = [&](int place) {
    return tj::Tensor::contiguous(address(kFirstAddress + static_cast<std::uint64_t>(place) * kAddressStep), kFirstGpu,
                                  tj::DType::f16, {1024, 1024});
  };
  tj::GemmArgs args;
  args.a = matrix(0);
  args.b = matrix(1);
  args.d = matrix(2);
  const auto tuned = [&](tj::Options options, const char* only) {
    tj::TuneOptions how;
    how.rounds = 1;
    how.only = {only};
    Runtime runtime(std::move(options));
    REQUIRE(runtime.tune(args, how).kept);
  };
  const auto taken = [&] { return Runtime(machine.layered()).prepare(args).name; };
  tj::Options image = machine.options();
  image.cache_dir = machine.image;
  tuned(image, "128x128x64");
  CHECK(taken() == "gemm_f16_kk_128x128x64");
  // Packs carry them, to machines of that driver.
  tj::Options packed = machine.options();
  packed.cache_dir = (machine.scratch / "empty") + ":" + (machine.scratch / "model.tjp");
  REQUIRE(tj::cache::Store(machine.image, 0, {}).pack(machine.scratch / "model.tjp", nullptr).problem.empty());
  CHECK(Runtime(packed).prepare(args).name == "gemm_f16_kk_128x128x64");
  CHECK(machine.warnings.empty());
  machine.cuda.set_driver_version(12080);
  CHECK(Runtime(packed).prepare(args).name != "gemm_f16_kk_128x128x64");
  REQUIRE(machine.warnings.size() == 1);
  CHECK(has(machine.warnings[0], "it was measured under the driver of 'CUDA 13.0', and this is that of 'CUDA 12.8'"));
  machine.cuda.set_driver_version(13000);
  tuned(machine.layered(), "128x256x64");
  CHECK(taken() == "gemm_f16_kk_128x256x64");
}

}  // namespace
