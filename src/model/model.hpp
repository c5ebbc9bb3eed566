// The CPU model as a driver, with the options that only checkers and tests set.
//
// Decides nothing about a kernel. See kernel_templates/model/README.md for the model's behaviour and reports.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launch/driver.hpp"

namespace tj::model {

struct ModelOptions {
  std::uint64_t seed = 1;           ///< draws the order of warps and of asynchronous completions; equal seeds, equal
                                    ///< runs
  std::vector<int> disabled_sites;  ///< site ids, from 1 on, whose wait, arrive, fence or announcement is skipped
  unsigned workers = 0;             ///< threads that run blocks, one cluster each; 0: as the machine has, at most 8
  std::vector<int> weakened_sites;  ///< a wait for groups leaves one more under way, an announcement says half the
                                    ///< bytes, a named sync only arrives, a counter is told or shows a number alone
  unsigned sm_count = 0;            ///< multiprocessors of the device; 0: 4, so that small tensors make several tiles
};

class ModelDriver : public launch::Driver {
 public:
  /// Sets options of launches that begin afterwards. Throws tj::Error(argument, invalid_argument) for a number that no
  /// site has. Thread safe.
  virtual void set_options(ModelOptions options) = 0;
};

/// The driver, which is always there.
std::shared_ptr<launch::Driver> open_model();
/// The driver as its own type, with its options.
std::shared_ptr<ModelDriver> open_model_driver();

}  // namespace tj::model
