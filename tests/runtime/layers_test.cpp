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

TEST_CASE("measured choices of a layer are taken, and one that is measured again goes before") {
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
  tuned(machine.layered(), "128x256x64");
  CHECK(taken() == "gemm_f16_kk_128x256x64");
}

}  // namespace
