// Documents that texts of the tools name.
//
// Decides where they are: below share/doc/tilejit beside the folder of an installed tool, else in the source tree.
// Invariant: the place follows the tools when the tree is moved.
#pragma once

#include <string>

namespace tj::tools {

/// "src/arch/README.md" as the path of that file of this installation; the name itself where the tool is not an
/// installed one.
std::string document(const std::string& name);

}  // namespace tj::tools
