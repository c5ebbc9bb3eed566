// Runs the small kernels by which a card is measured: made by the library's own compilers of
// kernel_templates/calibrate, launched by its drivers.
//
// Decides how a probe is compiled, how often it runs and what counts of its clock. Does not decide what is measured,
// nor what follows from it (calibrate_facts.hpp). Invariant: a sample that nothing was measured for is left out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "backends.hpp"
#include "calibrate/params.cuh"
#include "launch/driver.hpp"
#include "support/launch_shape.hpp"

namespace tj::tools {

/// A kernel of kernel_templates/calibrate.
struct Probe {
  std::string file;  ///< that has it, without folder and suffix: "common"
  std::string run;   ///< its function, behind "Threads": "arithmetic<512, Exp2>"
  unsigned threads = 0;
  std::int64_t smem_bytes = 0;
  int size = 0;         ///< calibrate::Params::size
  bool one_sm = false;  ///< a single block; else one for each SM
};

class Lab {
 public:
  /// launches: samples of each quantity. backends outlives this.
  Lab(Backends& backends, Device device, const arch::Target& target, int launches);

  /// Cycles of one repeat of a probe's body, a sample for each launch: of its rounds the least, from the first warp's
  /// begin to the last one's end. Empty where the clock did not move.
  std::vector<double> cycles(const Probe& probe, int repeats);
  /// Seconds of one of `count` copies of memory to memory, a sample each; bytes: how many are read, and written.
  std::vector<double> copy_seconds(double& bytes);

  const arch::Arch& arch() const { return *target_.arch; }
  bool on_model() const { return target_.model; }
  const launch::DeviceInfo& info() const { return info_; }
  /// Cycles of the clock a second while all SMs work, in MHz; 0 where nothing tells. Time and cycles are of the same
  /// launch, which takes some 260 ns a repeat.
  double clock_mhz(int repeats = 20000);

 private:
  struct Made {
    std::string binary;
    std::shared_ptr<launch::Kernel> kernel;
    support::LaunchShape shape;
  };
  const Made& made(const Probe& probe);
  calibrate::Params params(const Probe& probe, int rounds, int repeats);
  void launch(const Made& made, const calibrate::Params& params, unsigned blocks, Stream stream = {});
  std::vector<double> seconds(int count, const std::function<void(Stream)>& work);

  Backends& backends_;
  const Device device_;
  const arch::Target target_;
  const int launches_;
  const std::shared_ptr<launch::Driver> driver_;
  const launch::DeviceInfo info_;
  std::map<std::string, Made> made_;
  std::shared_ptr<void> out_, in_;
};

}  // namespace tj::tools
