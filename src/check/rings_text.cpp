// See rings_text.hpp.
#include "check/rings_text.hpp"

#include <algorithm>
#include <string_view>

#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::check {
namespace {

using support::cat;

struct Ring {
  std::string name;
  int slots = 0;
  std::size_t line = 0;  ///< line of its slots
  std::size_t end = 0;   ///< end of the struct
};
/// Lines [begin, end) of a role, or of several that are written once.
struct Section {
  std::string names;
  std::size_t begin = 0, end = 0;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::size_t indentation(const std::string& line) { return std::min(line.find_first_not_of(' '), line.size()); }
bool begins(const std::string& line, std::string_view word) {
  return line.compare(indentation(line), word.size(), word) == 0;
}

constexpr std::string_view kSlots = "kSlots = ";

std::vector<Ring> rings_of(const std::vector<std::string>& lines) {
  std::vector<Ring> rings;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (begins(lines[i], "struct Ring"))
      rings.push_back(
          {lines[i].substr(indentation(lines[i]) + 7, lines[i].find(" {") - indentation(lines[i]) - 7), 0, 0, 0});
    if (rings.empty() || rings.back().end != 0) continue;
    if (const std::size_t at = lines[i].find(kSlots); at != std::string::npos) {
      rings.back().slots = std::stoi(lines[i].substr(at + kSlots.size()));
      rings.back().line = i;
    }
    if (begins(lines[i], "};")) rings.back().end = i;
  }
  return rings;
}

std::vector<std::string> names_of(const std::string& comment) {
  std::vector<std::string> names;
  for (std::size_t begin = comment.find("role") + (comment.find("// roles ") != std::string::npos ? 6 : 5);
       begin < comment.size();) {
    const std::size_t end = std::min(comment.find(", ", begin), comment.size());
    names.push_back(comment.substr(begin, end - begin));
    begin = end + 2;
  }
  return names;
}

/// Sections behind a comment that names roles, up to where the text is less indented. Small roles beside each other
/// have a branch each.
std::vector<Section> sections_of(const std::vector<std::string>& lines) {
  std::vector<Section> sections;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!begins(lines[i], "// role ") && !begins(lines[i], "// roles ")) continue;
    const std::size_t depth = indentation(lines[i]);
    std::size_t end = i + 1;
    while (end < lines.size() && (lines[end].empty() || indentation(lines[end]) >= depth)) ++end;
    const std::vector<std::string> names = names_of(lines[i]);
    std::vector<Section> branches;
    for (std::size_t k = i + 1; k < end; ++k) {
      if (indentation(lines[k]) != depth) continue;
      if (begins(lines[k], "if (warp ") && lines[k].back() == '{')
        branches.push_back({"", k, end});
      else if (begins(lines[k], "}") && !branches.empty() && branches.back().end == end)
        branches.back().end = k + 1;
    }
    if (names.size() > 1 && branches.size() == names.size()) {
      for (std::size_t b = 0; b < branches.size(); ++b)
        sections.push_back({names[b], branches[b].begin, branches[b].end});
    } else {
      std::string all;
      for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
      sections.push_back({all, i + 1, end});
    }
  }
  return sections;
}

/// True when the whole word was there.
bool replace_word(std::string& line, const std::string& word, const std::string& other) {
  bool found = false;
  for (std::size_t at = 0; (at = line.find(word, at)) != std::string::npos;) {
    const bool whole = (at == 0 || !support::is_word_letter(line[at - 1])) &&
                       (at + word.size() == line.size() || !support::is_word_letter(line[at + word.size()]));
    if (whole) line.replace(at, word.size(), other);
    found = found || whole;
    at += whole ? other.size() : word.size();
  }
  return found;
}

}  // namespace

std::vector<RingText> ring_mutants(const std::string& unit, const std::vector<std::string>& filled_once) {
  const std::vector<std::string> lines = lines_of(unit);
  const std::vector<Ring> rings = rings_of(lines);
  const std::vector<Section> sections = sections_of(lines);
  std::vector<RingText> mutants;
  for (const Ring& ring : rings) {
    const bool once = std::find(filled_once.begin(), filled_once.end(), ring.name) != filled_once.end();
    for (const Section& section : sections)
      for (const int slots : {ring.slots + 1, ring.slots - 1}) {
        if (slots < 1 || once || sections.size() < 2) continue;  // with one role alone all count alike
        const std::string other = ring.name + "OtherDepth";
        std::vector<std::string> text = lines;
        bool used = false;
        for (std::size_t i = section.begin; i < section.end; ++i)
          used = replace_word(text[i], ring.name, other) || used;
        if (!used) continue;
        text.insert(text.begin() + static_cast<std::ptrdiff_t>(ring.end) + 1,
                    cat("  struct ", other, " : ", ring.name, " { static constexpr unsigned kSlots = ", slots, "; };"));
        mutants.push_back(
            {ring.name, cat("ring ", ring.name, " of ", ring.slots, " slots counted as ", slots, " by ", section.names),
             joined(text)});
      }
    // Only barriers that lie elsewhere would tell: the first slot is all that is used.
    if (once && lines[ring.line].find("kFull") == std::string::npos &&
        lines[std::min(ring.line + 1, lines.size() - 1)].find("kFull") == std::string::npos)
      continue;
    std::vector<std::string> text = lines;
    const std::string was = cat(kSlots, ring.slots), now = cat(kSlots, ring.slots + 1);
    text[ring.line].replace(text[ring.line].find(was), was.size(), now);
    mutants.push_back(
        {ring.name,
         cat("ring ", ring.name, " of ", ring.slots, " slots used with ", ring.slots + 1, " in the same layout"),
         joined(text)});
  }
  return mutants;
}

}  // namespace tj::check
