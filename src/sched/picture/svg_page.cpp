// Text and shapes of a page (see svg_page.hpp).
#include "sched/picture/svg_page.hpp"

#include <algorithm>
#include <cstddef>

namespace tj::sched {

// c: held, l: in flight, r: role, q: iteration.
const char* const kPageStyle =
    "text{font-family:'DejaVu Sans Mono','Liberation Mono',Menlo,Consolas,monospace;font-size:11px;fill:#1a1a1a}\n"
    ".s{font-size:10px}.n{font-size:10px;fill:#555}.a{font-size:10px;paint-order:stroke;stroke:#fff;stroke-width:3px}."
    "h{font-size:13px;font-weight:bold}.t{font-size:16px;font-weight:bold}\n"
    ".page{fill:#fff}.tick{stroke:#e3e3e3}.period{stroke:#888;stroke-dasharray:4 "
    "3}.lead{stroke:#777;stroke-width:.7}.row{stroke:#ccc}\n"
    ".frame{fill:none;stroke:#666;stroke-width:.6}.bar{fill:#eee}.wait{fill:#f0a81c}.pro{fill:#faf6ea}\n"
    ".c0{fill:#cfcfcf}.c1{fill:#9cc4ec}.c2{fill:#f6bd86}.c3{fill:#a3d9a5}.c4{fill:#cdb4e6}.c5{fill:#f2a9b8}.c6{fill:#"
    "8fd6d0}.c7{fill:#dcd77a}.c8{fill:#c2997a}.c9{fill:#8b9bc9}.c10{fill:#e58fdd}.c11{fill:#ee8577}\n"
    ".l0{fill:#ececec}.l1{fill:#dcebf9}.l2{fill:#fce6d2}.l3{fill:#dcf1dd}.l4{fill:#ece2f6}.l5{fill:#fae0e6}.l6{fill:#"
    "d9f2f0}.l7{fill:#f5f3d2}.l8{fill:#e8dacf}.l9{fill:#d7deee}.l10{fill:#f7dcf4}.l11{fill:#fad9d4}\n"
    ".r0{fill:#6b6b6b}.r1{fill:#1f5fa8}.r2{fill:#c4620c}.r3{fill:#2a7f2e}.r4{fill:#6f3aa8}.r5{fill:#b02748}.r6{fill:#"
    "0d7f77}.r7{fill:#857d0a}.r8{fill:#6e4526}.r9{fill:#3b4a80}.r10{fill:#a01c93}.r11{fill:#c62a17}\n"
    ".q0{fill:#222}.q1{fill:#d81b7a}.q2{fill:#0097b2}.q3{fill:#d9a400}\n"
    ".crit{stroke:#c62a17;stroke-width:1.6}.critdot{fill:#c62a17}\n";

namespace {

struct Letter {
  std::string_view bytes;
  std::uint32_t code = 0;
  bool valid = true;
  int width = 1;
};

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; }

/// The letter at `from`: one code point, or one byte that is none.
Letter letter_at(std::string_view text, std::size_t from) {
  const auto first = static_cast<unsigned char>(text[from]);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xF0 && first < 0xF5 ? 4
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xC2 && first < 0xE0 ? 2
                                                             : 0;
  if (length == 0 || from + length > text.size()) return {text.substr(from, 1), 0, false, 1};
  std::uint32_t code = length == 1 ? first : first & (0xFFu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (!continues(text[from + i])) return {text.substr(from, 1), 0, false, 1};
    code = code << 6 | (static_cast<unsigned char>(text[from + i]) & 0x3Fu);
  }
  static constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool allowed = code >= kLeast[length] && code < 0x110000 && (code < 0xD800 || code > 0xDFFF) &&
                       code != 0xFFFE && code != 0xFFFF && (code >= 0x20 || code == '\t');
  if (!allowed) return {text.substr(from, length), code, false, 1};
  return {text.substr(from, length), code, true, (code >= 0x1100 && code < 0x1160) || code >= 0x2E80 ? 2 : 1};
}

std::vector<Letter> letters(std::string_view text) {
  std::vector<Letter> list;
  for (std::size_t from = 0; from < text.size();) {
    list.push_back(letter_at(text, from));
    from += list.back().bytes.size();
  }
  return list;
}

/// 123 -> "12.3"
std::string pixels(Tenths value) {
  const Tenths size = value < 0 ? -value : value;
  std::string text = (value < 0 ? "-" : "") + std::to_string(size / 10);
  if (size % 10 != 0) text += "." + std::to_string(size % 10);
  return text;
}

std::string attribute(std::string_view name, std::string_view value) {
  return value.empty() ? std::string() : std::string(" ").append(name).append("=\"").append(value).append("\"");
}

}  // namespace

int columns(std::string_view text) {
  int sum = 0;
  for (const Letter& letter : letters(text)) sum += letter.width;
  return sum;
}

std::string shortened(std::string_view text, int limit) {
  if (columns(text) <= limit) return std::string(text);
  if (limit < 2) return {};
  const std::vector<Letter> list = letters(text);
  const int tail_limit = (limit - 1) / 2;
  int tail = 0;
  std::size_t last = list.size();
  while (last > 0 && tail + list[last - 1].width <= tail_limit) tail += list[--last].width;
  int head = 0;
  std::string out;
  for (std::size_t i = 0; i < last && head + list[i].width <= limit - 1 - tail; ++i) {
    head += list[i].width;
    out += list[i].bytes;
  }
  out += "\xE2\x80\xA6";
  for (; last < list.size(); ++last) out += list[last].bytes;
  return out;
}

std::vector<std::string> wrapped(std::string_view text, int limit) {
  std::vector<std::string> lines;
  const std::vector<Letter> list = letters(text);
  std::size_t from = 0;
  while (from < list.size()) {
    int width = 0;
    std::size_t to = from, blank = 0;
    for (; to < list.size() && width + list[to].width <= limit; ++to) {
      width += list[to].width;
      if (list[to].bytes == " ") blank = to;
    }
    if (to < list.size() && list[to].bytes == " ") blank = to;
    if (to < list.size() && blank > from) to = blank;
    to = std::max(to, from + 1);
    std::string line;
    for (std::size_t i = from; i < to; ++i) line += list[i].bytes;
    lines.push_back(std::move(line));
    from = to;
    while (from < list.size() && list[from].bytes == " ") ++from;
  }
  return lines;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const Letter& letter : letters(text)) {
    if (!letter.valid)
      out += "?";
    else if (letter.bytes == "&")
      out += "&amp;";
    else if (letter.bytes == "<")
      out += "&lt;";
    else if (letter.bytes == ">")
      out += "&gt;";
    else if (letter.bytes == "\"")
      out += "&quot;";
    else if (letter.bytes == "'")
      out += "&#39;";
    else if (letter.bytes == "\t")
      out += " ";
    else
      out += letter.bytes;
  }
  return out;
}

void Page::open(std::string_view title) { body_.append("<g><title>").append(escaped(title)).append("</title>\n"); }

void Page::rect(Tenths x, int y, Tenths width, int height, std::string_view css) {
  body_ += "<rect" + attribute("class", css) + attribute("x", pixels(x)) + attribute("y", std::to_string(y)) +
           attribute("width", pixels(width)) + attribute("height", std::to_string(height)) + "/>\n";
}

void Page::line(Tenths x1, int y1, Tenths x2, int y2, std::string_view css) {
  body_ += "<line" + attribute("class", css) + attribute("x1", pixels(x1)) + attribute("y1", std::to_string(y1)) +
           attribute("x2", pixels(x2)) + attribute("y2", std::to_string(y2)) + "/>\n";
}

void Page::text(Tenths x, int y, std::string_view content, std::string_view css) {
  if (content.empty()) return;
  body_ += "<text" + attribute("class", css) + attribute("x", pixels(x)) + attribute("y", std::to_string(y)) + ">" +
           escaped(content) + "</text>\n";
}

}  // namespace tj::sched
