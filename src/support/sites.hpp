// Sites of kernels as a command line and a variable name them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tj::support {

/// A site of the kernel of this name; of every kernel where there is no name.
struct SiteName {
  std::string kernel;
  int id = 0;
};

/// "12" or "fmha_f16_d128:12". Throws tj::Error(argument) naming what held it, its value and what is allowed.
SiteName parse_site(std::string_view where, const std::string& text);
/// Sites, separated by commas.
std::vector<SiteName> parse_sites(std::string_view where, const std::string& text);

/// "12", "fmha_f16_d128:12".
std::string to_string(const SiteName& site);

}  // namespace tj::support
