// Streams into a text and out of one, with C's numbers.
//
// Decides that texts of the library are the same in every program. A program may set a locale for all of C++, and
// other streams then write 1.234 for 1234, also into the source of a kernel. Decides also that memory which runs out is
// std::bad_alloc: other streams swallow it and go on with a text that is cut. Invariant: no other kind of stream writes
// a number in the library, and a text is whole or there is none.
#pragma once

#include <locale>
#include <sstream>
#include <string>

namespace tj::support {

class TextStream : public std::ostringstream {
 public:
  TextStream() {
    imbue(std::locale::classic());
    exceptions(badbit);
  }
};

/// The words read from it are whole, too: a word that memory lacks for is an error, not the text's end.
class TextReader : public std::istringstream {
 public:
  explicit TextReader(const std::string& text) : std::istringstream(text) {
    imbue(std::locale::classic());
    exceptions(badbit);
  }
};

}  // namespace tj::support
