// The directories of a cache: one that is written, and others that are only searched.
//
// Decides which directory is written, and in which order they are searched. Does not decide whom to trust
// (directory.hpp). Invariant: nothing is changed in any directory but the written one.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/directory.hpp"
#include "cache/pack.hpp"
#include "support/file_descriptor.hpp"

namespace tj::cache {

struct Layer {
  std::string directory;
  std::size_t place = 0;                  ///< among those that were given
  support::FileDescriptor opened;         ///< none where it is missing or cannot be used
  std::shared_ptr<const PackIndex> pack;  ///< `opened` is that of a pack; null for a directory
  std::string problem;                    ///< why it cannot be used; empty when it can, or can be made
  bool written = false;

  /// The entries of a pack.
  std::span<const PackRecord> records() const {
    return pack ? std::span(pack->records) : std::span<const PackRecord>();
  }
};

/// The directories of a list with colons between them, without empty ones and without slashes at their ends.
std::vector<std::string> split_layers(std::string_view list);

/// The layers in the order in which they are searched: the written one, then the others as they are given. Written is
/// the first that this process can write, or make where it is missing; `when_missing` says whether it is made. A
/// directory all by itself is written, come what may. So is one that cannot be opened for a reason that may pass, such
/// as EIO: nothing is written then. A file is a pack, which is never written. Where none can be written, none is marked
/// so.
std::vector<Layer> open_layers(const std::vector<std::string>& directories, WhenMissing when_missing,
                               PackOpener& packs);

/// The layer that is written; null where there is none, or it is not open.
const Layer* layer_to_write(const std::vector<Layer>& layers);

/// "the reason", or "layer '/a': the reason" where there are several.
std::string problem_in(const Layer& layer, const std::string& problem, std::size_t layers);

}  // namespace tj::cache
