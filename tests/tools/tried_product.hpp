// A user's product of 64 x 64 with candidates and a trial, in a folder of its own, for tests of tools.
#pragma once

#include <string>

#include "custom/warp_kernel.hpp"
#include "support/scratch.hpp"

namespace tj::test {

/// A product of 64 x 64 with trials, in a folder of its own.
class TriedProduct {
 public:
  explicit TriedProduct(const std::string& expected = "sum(l, k, a[i0, l] * b[i1, l])", bool candidates = true) {
    const std::string trials = std::string(R"("parameters": {"slots": 4}, )") +
                               (candidates ? R"("candidates": [
    {"name": "two", "parameters": {"slots": 2}}, {"name": "three", "parameters": {"slots": 3}}],)"
                                           : "") +
                               R"x(
  "trials": [{"name": "deep", "sizes": {"k": 640}, "blocks": 1,
    "tensors": [{"name": "a", "dtype": "f16", "shape": [64, "k"]}, {"name": "b", "dtype": "f16", "shape": [64, "k"], "fill": "normal / sqrt(k)"},
                {"name": "d", "dtype": "f32", "shape": [64, 64], "written": true, "expected": ")x" +
                               expected + R"("}],
    "params": [{"kind": "pointer", "of": "a"}, {"kind": "pointer", "of": "b"}, {"kind": "pointer", "of": "d"}, {"kind": "i32", "of": "k"}]}],
  )";
    std::string graph = kernel_.description.graph;
    graph.insert(graph.find("\"code\""), trials);
    graph.replace(graph.find("\"max_slots\": 4"), 14, "\"max_slots\": \"slots\"");
    testing::write_bytes(path(), graph);
  }
  /// Its products have a variant in iterations 3 to 6 of ten, which does the same.
  void give_ranges(const std::string& ranges) const {
    std::string graph = testing::read_bytes(path()), bodies = kernel_.bodies;
    replace(graph, "\"code\"", "\"ranges\": \"" + ranges + "\", \"code\"");
    replace(graph, "\"fu\": \"TC\"",
            R"("fu": "TC", "variant": "Fast", "variant_begin": "third", "variant_end": "seventh")");
    replace(bodies, "template <class C>\nTJ_DEVICE void mma(Consumer<C>& consumer, const Tile&, int, u32 tile) {",
            R"(template <class C> TJ_DEVICE int third(const Consumer<C>&, const Tile&) { return 3; }
template <class C> TJ_DEVICE int seventh(const Consumer<C>&, const Tile&) { return 7; }
template <class C, class Variant>
TJ_DEVICE void mma(Consumer<C>& consumer, const Tile&, int, u32 tile, Variant) {)");
    testing::write_bytes(path(), graph);
    testing::write_bytes(kernel_.folder() + "/warp_product.cuh", bodies);
  }
  std::string path() const { return kernel_.folder() + "/product.json"; }

 private:
  static void replace(std::string& text, const std::string& piece, const std::string& other) {
    text.replace(text.find(piece), piece.size(), other);
  }
  WarpKernel kernel_{"sm_80", true};
};

}  // namespace tj::test
