// Protects the .npy files of the samples: what NumPy writes is read, what is read was checked, and bad files are
// refused with the file's name and the reason.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include <tilejit/error.hpp>

#include "common/npy.hpp"
#include "support/scratch.hpp"

namespace {

using tj::DType;
using tj::samples::Array;
using tj::testing::Scratch;

/// Writes a file and returns its path.
std::string file(const Scratch& folder, const char* name, const std::string& bytes) {
  tj::testing::write_bytes(folder / name, bytes);
  return folder / name;
}

/// A file as NumPy lays it out, of a given format version.
std::string npy(int version, const std::string& header, const std::string& data) {
  std::string text = "\x93NUMPY";
  text += static_cast<char>(version);
  text += '\0';
  std::size_t length = header.size();
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i, length >>= 8) text += static_cast<char>(length & 0xff);
  return text + header + data;
}

void refused(const std::string& path, const std::string& part) {
  try {
    tj::samples::read_npy(path);
    FAIL("not refused: ", part);
  } catch (const tj::Error& error) {
    CHECK_MESSAGE(error.message.find(part) != std::string::npos, error.message);
    CHECK(error.message.find(path) != std::string::npos);
  }
}

TEST_CASE("what is written is read back") {
  const Scratch folder;
  const std::string path = folder / "a.npy";
  for (const DType dtype : {DType::f16, DType::f32}) {
    Array array{dtype, {2, 3, 1}, {}};
    for (int i = 0; i < 6 * tj::size_of(dtype); ++i) array.bytes.push_back(static_cast<std::uint8_t>(i * 37));
    tj::samples::write_npy(path, array);
    const Array back = tj::samples::read_npy(path);
    CHECK(back.dtype == dtype);
    CHECK(back.shape == array.shape);
    CHECK(back.bytes == array.bytes);
    CHECK(back.elements() == 6);
    CHECK((std::filesystem::file_size(path) - array.bytes.size()) % 64 == 0);
  }
}

TEST_CASE("versions 1 to 3, keys in any order, and a scalar") {
  const Scratch folder;
  for (const int version : {1, 2, 3}) {
    const Array array = tj::samples::read_npy(
        file(folder, "v.npy", npy(version, "{'shape': (2,), \"fortran_order\": False,'descr': '<f2'}  \n", "abcd")));
    CHECK(array.shape == std::vector<std::int64_t>{2});
    CHECK(array.bytes == std::vector<std::uint8_t>{'a', 'b', 'c', 'd'});
  }
  CHECK(tj::samples::read_npy(
            file(folder, "s.npy", npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }\n", "abcd")))
            .shape.empty());
}

TEST_CASE("bad files name the file and the reason") {
  const Scratch folder;
  const auto header = [](const char* descr, const char* order, const char* shape) {
    return std::string("{'descr': '") + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
  };
  refused(folder / "absent.npy", "cannot be opened");
  refused(file(folder, "empty.npy", ""), "magic");
  refused(file(folder, "text.npy", "hello, this is no array"), "magic");
  refused(file(folder, "v9.npy", npy(9, header("<f2", "False", "(2,)"), "abcd")), "version 9");
  refused(file(folder, "cut.npy", npy(1, header("<f2", "False", "(2,)"), "abcd").substr(0, 30)),
          "ends inside the header");
  refused(file(folder, "f8.npy", npy(1, header("<f8", "False", "(2,)"), "abcd")), "'<f8'");
  refused(file(folder, "big_endian.npy", npy(1, header(">f2", "False", "(2,)"), "abcd")), "'>f2'");
  refused(file(folder, "fortran.npy", npy(1, header("<f2", "True", "(2,)"), "abcd")), "fortran_order");
  refused(file(folder, "short.npy", npy(1, header("<f2", "False", "(3,)"), "abcd")), "holds 4 bytes");
  refused(file(folder, "long.npy", npy(1, header("<f2", "False", "(1,)"), "abcd")), "holds 4 bytes");
  refused(file(folder, "negative.npy", npy(1, header("<f2", "False", "(-1,)"), "abcd")), "no number");
  refused(file(folder, "huge.npy", npy(1, header("<f2", "False", "(9223372036854775807, 9)"), "abcd")), "64 bits");
  refused(file(folder, "digits.npy", npy(1, header("<f2", "False", "(99999999999999999999,)"), "abcd")), "64 bits");
  refused(file(folder, "key.npy", npy(1, "{'descr': '<f2', 'order': 1}", "")), "'order'");
  refused(file(folder, "missing.npy", npy(1, "{'descr': '<f2'}", "")), "missing key");
}

TEST_CASE("bf16 is not written: the format has no name for it") {
  const Scratch folder;
  CHECK_THROWS_AS(tj::samples::write_npy(folder / "b.npy", Array{DType::bf16, {1}, {0, 0}}), tj::Error);
}

}  // namespace
