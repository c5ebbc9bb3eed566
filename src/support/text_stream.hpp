// A stream into a text, with C's numbers.
//
// Decides that texts of the library are the same in every program. A program may set a locale for all of C++, and
// other streams then write 1.234 for 1234, also into the source of a kernel. Invariant: no other kind of stream writes
// a number in the library.
#pragma once

#include <locale>
#include <sstream>

namespace tj::support {

class TextStream : public std::ostringstream {
 public:
  TextStream() { imbue(std::locale::classic()); }
};

}  // namespace tj::support
