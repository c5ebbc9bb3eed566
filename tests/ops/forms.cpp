// See forms.hpp.
#include "ops/forms.hpp"

#include <map>
#include <string>
#include <utility>

#include "ops/gemm/gemm.hpp"

namespace tj::testing {

std::vector<ops::Request> forms_of(const ops::Op& op, const arch::Arch& arch) {
  std::vector<ops::Request> list = op.requests_for({}, arch);
  const auto more = [&](const std::map<std::string, std::vector<std::string>>& flags) {
    for (ops::Request& request : op.requests_for(flags, arch)) list.push_back(std::move(request));
  };
  if (op.name() == "fmha")
    more({{"dtype", {"f16"}}, {"general-scale", {"true"}}, {"rung", {"1", "2", "3", "4", "5", "6"}}});
  if (op.name() == "chunk_o")
    more({{"head-ratio", {"1", "2", "3", "6"}},
          {"gated", {"both"}},
          {"variable", {"both"}},
          {"h-transposed", {"both"}}});
  if (op.name() != "gemm") return list;
  std::vector<std::string> wide, narrow;
  for (const ops::GemmTile& tile : ops::gemm_tiles())
    (tile.element_bytes == 2 ? wide : narrow).push_back(ops::gemm_tile_name(tile));
  more({{"dtype", {"f16"}},
        {"tile", wide},
        {"out", {"f16", "f32"}},
        {"a-major", {"k", "m"}},
        {"b-major", {"k", "n"}},
        {"d-aligned", {"both"}},
        {"parts", {"both"}}});
  more(
      {{"dtype", {"bf16"}}, {"tile", wide}, {"bias", {"both"}}, {"add-c", {"both"}}, {"activation", {"none", "gelu"}}});
  more({{"dtype", {"e4m3"}}, {"tile", narrow}, {"out", {"bf16", "f32"}}});
  more({{"dtype", {"f16"}}, {"rung", {"v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10"}}});
  return list;
}

}  // namespace tj::testing
