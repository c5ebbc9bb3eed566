// Facts that codegen gives of a unit for reports about it: its sites, roles, rings and nodes by name.
//
// Decides how a number of the unit becomes a name. A unit without notes, such as one written by hand, has numbers
// alone. Format: TJ_NOTES in kernel_templates/model/README.md. Invariant: nothing here changes what a kernel does.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tj::model {

struct Notes {
  struct Site {
    std::string kind, text, node;
    std::vector<int> roles;
    int ring = -1;            ///< index of a ring
    bool hands_back = false;  ///< an arrival that says empty; else it says full
  };
  struct Role {
    std::string name;
    unsigned first_warp = 0, warps = 0;
    int registers = 0;
  };
  struct Ring {
    std::string value;
    std::uint32_t slots = 1, slot_bytes = 0, data = 0, full = 0,
                  empty = 0;  ///< offsets in the block's shared memory; full 0: no barriers
    std::uint32_t column = 0, slot_columns = 0,
                  member_columns = 0;  ///< offset of a ring in tensor memory: counted from the block's first column
    std::uint32_t members = 1;         ///< rings of this kind, one behind the other, for roles of a family
    bool filled_once = false, barriers = false;
    bool full_of_pair = false, empty_of_pair = false;  ///< that barrier counts in the first block of a pair, for both
    bool of_first = false;  ///< the first block of a cluster fills the slots of all, which hand back to that block
    bool of_pair() const { return full_of_pair || empty_of_pair; }
    std::vector<std::string> producers, consumers;
  };
  struct Call {
    std::vector<std::string> nodes;  ///< one for each role that makes the value
    std::vector<int> roles;
    std::vector<int> reads, writes;  ///< indexes of rings
  };
  struct Wait {  ///< node `dst` of an iteration needs what the matrix unit did for node `src`, `distance` iterations
                 ///< before
    std::string src, dst;
    int distance = 0;
  };
  struct Place {  ///< in a ring, or among its barriers
    const Ring* ring;
    std::uint32_t slot, member;
    bool full = false;  ///< site of a barrier that says so; else the one that says empty
  };

  /// Null and "" give empty notes. Throws tj::Error(load, internal) for text that is no notes.
  static Notes parse(const char* json);

  const Role* role_of(unsigned warp) const;
  /// "" where unknown.
  std::string node(int call, unsigned warp) const;
  std::string site(int id) const;
  /// Does the node take what others have filled the ring with?
  bool reads(int call, const Ring& ring) const;
  /// The ids of the sites that arrive at a ring's barrier: sites of readers that hand back, or of writers that publish
  /// or announce.
  std::vector<int> givers(const Place& barrier) const;
  /// Of rings that have one place, the one that the call fills or reads.
  std::optional<Place> slot_at(std::uint32_t offset, int call) const;
  /// The slots of other rings that have that place in turns with a slot of `own`.
  std::vector<Place> others_at(std::uint32_t offset, const Ring& own) const;
  /// The slot of tensor memory that a node has there, in a ring that it reads or fills.
  std::optional<Place> columns_at(int call, bool fills, std::uint32_t column) const;
  std::optional<Place> barrier_at(std::uint32_t offset) const;

  std::string name;
  std::map<int, Site> sites;
  std::vector<Role> roles;
  std::vector<Ring> rings;
  std::map<int, Call> calls;
  std::vector<Wait> waits;
  int entry_registers = 0;
};

}  // namespace tj::model
