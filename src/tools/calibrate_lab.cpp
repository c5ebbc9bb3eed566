// See calibrate_lab.hpp.
#include "tools/calibrate_lab.hpp"

#include <algorithm>
#include <utility>

#include "pipeline.hpp"
#include "support/fail.hpp"

namespace tj::tools {
namespace {

using support::cat;

constexpr const char* kSymbol = "probe";
constexpr int kRounds = 6, kModelRounds = 2;            // the first one of each launch warms up
constexpr unsigned kModelBlocks = 1;                    // the model stands for one SM, and is slow
constexpr std::size_t kInBytes = std::size_t{1} << 20;  // far below every L2
constexpr std::size_t kOutWords = 4096;
constexpr std::size_t kCopiedBytes = std::size_t{1} << 29, kModelCopiedBytes = std::size_t{1} << 16;
constexpr unsigned kCopyThreads = 256, kCopyBlocks = 16;  // of an SM, in turn

unsigned blocks_of(const launch::DeviceInfo& info, bool model) {
  return model ? kModelBlocks : static_cast<unsigned>(std::max(1, info.sm_count));
}

/// The cycles from the first warp's begin to the last one's end. The clock has 32 bits, and comes round.
std::uint32_t span(const std::uint32_t* times, int warps) {
  std::int32_t first = 0, last = 0;
  for (int warp = 0; warp < warps; ++warp) {
    first = std::min(first, static_cast<std::int32_t>(times[2 * warp] - times[0]));
    last = std::max(last, static_cast<std::int32_t>(times[2 * warp + 1] - times[0]));
  }
  return static_cast<std::uint32_t>(last - first);
}

}  // namespace

Lab::Lab(Backends& backends, Device device, const arch::Target& target, int launches)
    : backends_(backends),
      device_(device),
      target_(target),
      launches_(launches),
      driver_(backends.driver(device)),
      info_(driver_->device_info(device.index)),
      out_(driver_->allocate(device.index, kOutWords * sizeof(std::uint32_t))),
      in_(driver_->allocate(device.index, kInBytes)) {
  driver_->zero(device.index, in_.get(), kInBytes, {});
  driver_->synchronize(device.index, {});
}

const Lab::Made& Lab::made(const Probe& probe) {
  const auto [place, is_new] = made_.try_emplace(probe.run);
  Made& made = place->second;
  if (!is_new && made.kernel) return made;
  compile::Job job;
  job.name = target_.model ? "probe.cpp" : "probe.cu";
  job.text = "#define TJ_MATRIX_WIDTHS\n";
  for (const int width : {32, 128, 256}) job.text += cat("#define TJ_MATRIX_WIDTH_", width, "\n");
  job.text += cat("#include \"arch/", arch().primitives, ".cuh\"\n#include \"calibrate/", probe.file,
                  ".cuh\"\nusing namespace tj::calibrate;\nTJ_KERNEL(", kSymbol, ", ", probe.threads,
                  ", tj::calibrate::Params, params) { ", probe.run, "(params); }\n");
  job.headers = headers_for(target_);
  job.arch = arch().compiler_name();
  made.binary = backends_.compiler(target_).compile(job).bytes;
  made.shape.threads = probe.threads;
  made.shape.smem_bytes = probe.smem_bytes;
  made.shape.symbol = kSymbol;
  made.kernel = driver_->load(device_.index, made.binary, kSymbol, probe.smem_bytes);
  return made;
}

calibrate::Params Lab::params(const Probe& probe, int rounds, int repeats) {
  calibrate::Params params{};
  params.out = static_cast<unsigned*>(out_.get());
  params.in = static_cast<const char*>(in_.get());
  params.bytes = kInBytes;
  params.one = 1;
  params.rounds = rounds;
  params.repeats = repeats;
  params.size = probe.size;
  if (arch().has_unit("TMA")) {
    launch::TensorMapDesc desc;
    desc.base = in_.get();
    desc.rank = 4;
    desc.dims = {calibrate::kRowBytes / 2, calibrate::kMapRows, 1, 1};
    desc.stride_bytes = {2, calibrate::kRowBytes, calibrate::kRowBytes * calibrate::kMapRows,
                         calibrate::kRowBytes * calibrate::kMapRows};
    desc.box = {calibrate::kRowBytes / 2, calibrate::kBoxRows, 1, 1};
    driver_->encode_tensor_map(device_.index, desc, &params.map);
  }
  return params;
}

void Lab::launch(const Made& made, const calibrate::Params& params, unsigned blocks, Stream stream) {
  driver_->launch(device_.index, *made.kernel, {.grid = {blocks, 1, 1}, .shape = made.shape}, &params, sizeof(params),
                  stream);
}

std::vector<double> Lab::cycles(const Probe& probe, int repeats) {
  const Made& kernel = made(probe);
  const int rounds = target_.model ? kModelRounds : kRounds, warps = static_cast<int>(probe.threads / 32);
  if (target_.model) repeats = 1;
  const calibrate::Params how = params(probe, rounds, repeats);
  std::vector<std::uint32_t> times(2 * static_cast<std::size_t>(rounds * warps));
  const std::size_t bytes = times.size() * sizeof(times[0]);
  std::vector<double> samples;
  for (int i = 0; i < launches_; ++i) {
    std::fill(times.begin(), times.end(), 0);
    driver_->copy(device_.index, out_.get(), !target_.model, times.data(), false, bytes);
    launch(kernel, how, probe.one_sm ? 1 : blocks_of(info_, target_.model));
    driver_->synchronize(device_.index, {});
    driver_->copy(device_.index, times.data(), false, out_.get(), !target_.model, bytes);
    std::uint32_t least = ~0u;
    for (int round = 1; round < rounds; ++round)
      least = std::min(least, span(&times[2 * static_cast<std::size_t>(round * warps)], warps));
    if (least > 0) samples.push_back(static_cast<double>(least) / repeats);
  }
  return samples;
}

/// The seconds of one of `count` enqueued pieces of work. They are replayed from a graph where the driver has graphs.
std::vector<double> Lab::seconds(int count, const std::function<void(Stream)>& work) {
  std::shared_ptr<launch::Recording> recording;
  const auto all = [&](Stream stream) {
    for (int i = 0; i < count; ++i) work(stream);
  };
  all({});  // kernels are loaded by the first of them
  driver_->synchronize(device_.index, {});
  try {
    recording = driver_->record(device_.index, all);
  } catch (const Error& error) {
    if (error.stage != Stage::launch || error.code != Code::unsupported) throw;
  }
  std::vector<double> samples;
  for (int i = 0; i <= launches_; ++i) {
    const double ms = driver_->time_ms(device_.index, [&] {
      if (recording)
        recording->replay({});
      else
        all({});
    });
    if (i > 0 && ms > 0) samples.push_back(ms * 1e-3 / count);
  }
  return samples;
}

std::vector<double> Lab::copy_seconds(double& bytes) {
  const Probe probe{.file = "common", .run = cat("memory_copy<", kCopyThreads, ">"), .threads = kCopyThreads};
  const std::size_t size = target_.model ? kModelCopiedBytes : kCopiedBytes;
  const std::shared_ptr<void> from = driver_->allocate(device_.index, size),
                              to = driver_->allocate(device_.index, size);
  if (target_.model) driver_->zero(device_.index, from.get(), size, {});  // on a GPU any numbers do
  calibrate::Params how = params(probe, 1, 1);
  how.in = static_cast<const char*>(from.get());
  how.to = static_cast<char*>(to.get());
  how.bytes = size;
  bytes = static_cast<double>(size);
  const Made& kernel = made(probe);
  const unsigned blocks = blocks_of(info_, target_.model) * (target_.model ? 1 : kCopyBlocks);
  return seconds(target_.model ? 1 : 4, [&](Stream stream) { launch(kernel, how, blocks, stream); });
}

double Lab::clock_mhz(int repeats) {
  if (target_.model) return 0;
  const Probe probe{.file = "common", .run = "arithmetic<512, MultiplyAdd>", .threads = 512};
  const int warps = static_cast<int>(probe.threads / 32);
  const calibrate::Params how = params(probe, 1, repeats);
  const Made& kernel = made(probe);
  driver_->zero(device_.index, out_.get(), kOutWords * sizeof(std::uint32_t), {});
  const std::vector<double> taken =
      seconds(1, [&](Stream stream) { launch(kernel, how, blocks_of(info_, false), stream); });
  if (taken.empty()) return 0;
  std::vector<std::uint32_t> times(2 * static_cast<std::size_t>(warps));
  driver_->copy(device_.index, times.data(), false, out_.get(), true, times.size() * sizeof(times[0]));
  return span(times.data(), warps) / taken.back() * 1e-6;
}

}  // namespace tj::tools
