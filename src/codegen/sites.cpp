// See sites.hpp.
#include "codegen/sites.hpp"

namespace tj::codegen {

const char* name_of(SiteKind kind) {
  switch (kind) {
    case SiteKind::wait: return "wait";
    case SiteKind::arrive: return "arrive";
    case SiteKind::expect: return "expect";
    case SiteKind::fence: return "fence";
    case SiteKind::commit: return "commit";
    case SiteKind::group_wait: return "group_wait";
    case SiteKind::copies_wait: return "copies_wait";
    case SiteKind::tensor_wait: return "tensor_wait";
    case SiteKind::sync: return "sync";
    case SiteKind::turn_wait: return "turn_wait";
    case SiteKind::turn_arrive: return "turn_arrive";
    case SiteKind::cluster: return "cluster";
    case SiteKind::registers: return "registers";
    case SiteKind::grids: break;
  }
  return "grids";
}

}  // namespace tj::codegen
