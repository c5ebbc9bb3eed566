// See record.hpp.
#include "codegen/record.hpp"

namespace tj::codegen {

const char* name_of(MarkKind kind) {
  switch (kind) {
    case MarkKind::role_begin:
      return "role begin";
    case MarkKind::role_end:
      return "role end";
    case MarkKind::tile_begin:
      return "tile begin";
    case MarkKind::tile_end:
      return "tile end";
    case MarkKind::node_begin:
      return "node begin";
    case MarkKind::node_end:
      return "node end";
    case MarkKind::node_done:
      return "node done";
    case MarkKind::wait_begin:
      return "wait begin";
    case MarkKind::wait_end:
      return "wait end";
  }
  return "";
}

bool is_recording_name(std::string_view name) { return name == "recorded" || name == "next_record"; }

}  // namespace tj::codegen
