// See sites.hpp.
#include "support/sites.hpp"

#include <algorithm>
#include <charconv>

#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::support {

namespace {

constexpr const char* kAllowed =
    "allowed: a site's number from 1 on, or KERNEL:NUMBER (tj-check --list-sites lists them)";

}  // namespace

SiteName parse_site(std::string_view where, const std::string& text) {
  SiteName site;
  const std::size_t colon = text.rfind(':'), begin = colon == std::string::npos ? 0 : colon + 1;
  if (colon != std::string::npos) site.kernel = text.substr(0, colon);
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), site.id);
  if (error != std::errc() || end != text.data() + text.size() || site.id < 1 ||
      (colon != std::string::npos && site.kernel.empty()))
    fail(Stage::argument, Code::invalid_argument, cat(where, " is '", shown(text), "'; ", kAllowed));
  return site;
}

std::vector<SiteName> parse_sites(std::string_view where, const std::string& text) {
  std::vector<SiteName> sites;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end == begin)
      fail(Stage::argument, Code::invalid_argument,
           cat(where, " is '", shown(text), "', in which item ", sites.size() + 1, " is empty; ", kAllowed));
    sites.push_back(parse_site(where, text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return sites;
}

std::string to_string(const SiteName& site) {
  return site.kernel.empty() ? cat(site.id) : cat(site.kernel, ":", site.id);
}

}  // namespace tj::support
