// A strict little reader of the SVG that pictures are made of: throws for a text that is not well-formed, and lists
// elements.
#pragma once

#include <cctype>
#include <cstddef>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tj::test {

struct Element {
  std::string name, text;
  std::map<std::string, std::string> attributes;
  double number(const char* key) const { return std::stod(attributes.at(key)); }
  std::string css() const { return attributes.count("class") != 0 ? attributes.at("class") : std::string(); }
};

class SvgReader {
 public:
  explicit SvgReader(const std::string& text) : text_(text) {}

  std::vector<Element> read() {
    element();
    while (at_ < text_.size()) need(std::isspace(static_cast<unsigned char>(text_[at_++])) != 0, "text after the root");
    return std::move(elements_);
  }

 private:
  void need(bool right, const char* what) const {
    if (!right)
      throw std::runtime_error(std::string(what) + " near byte " + std::to_string(at_) + ": " +
                               text_.substr(at_ < 40 ? 0 : at_ - 40, 80));
  }
  char peek() const {
    need(at_ < text_.size(), "end of text");
    return text_[at_];
  }
  bool take(const std::string& word) {
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }
  void blanks() {
    while (std::isspace(static_cast<unsigned char>(peek())) != 0) ++at_;
  }
  std::string name() {
    std::string out;
    while (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '-' || peek() == ':') out += text_[at_++];
    need(!out.empty(), "no name");
    return out;
  }
  /// Content up to `end`, every letter allowed and every reference known.
  std::string content(char end) {
    std::string out;
    while (peek() != end) {
      const char c = peek();
      need(static_cast<unsigned char>(c) >= 0x20 || c == '\n', "control character");
      need(c != '<' && (c != '>' || end == '<') && (c != '"' || end == '<'), "letter that has to be escaped");
      if (c == '&') {
        bool known = false;
        for (const char* reference : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}) {
          if (text_.compare(at_, std::string(reference).size(), reference) != 0) continue;
          known = true;
          out += reference;
          at_ += std::string(reference).size();
          break;
        }
        need(known, "unknown reference");
        continue;
      }
      out += c;
      ++at_;
    }
    return out;
  }

  void element() {
    need(take("<"), "no element");
    const std::size_t index = elements_.size();
    elements_.emplace_back();
    elements_[index].name = name();
    for (blanks(); peek() != '>' && peek() != '/'; blanks()) {
      const std::string key = name();
      need(take("=\""), "no value");
      need(elements_[index].attributes.emplace(key, content('"')).second, "attribute given twice");
      need(take("\""), "value does not end");
      need(peek() == ' ' || peek() == '>' || peek() == '/', "no blank between attributes");
    }
    if (take("/>")) return;
    need(take(">"), "tag does not end");
    for (;;) {
      elements_[index].text += content('<');
      if (take("</")) break;
      element();
    }
    need(name() == elements_[index].name, "closes another element");
    need(take(">"), "tag does not end");
  }

  const std::string& text_;
  std::size_t at_ = 0;
  std::vector<Element> elements_;
};

}  // namespace tj::test
