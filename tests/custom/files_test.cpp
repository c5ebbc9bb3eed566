// Protects which files of a user's folder are read, and how names are looked for in them: as words, outside of
// comments.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "custom/custom.hpp"
#include "graph/graph.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace {

using namespace tj;
using testing::error_of;
using testing::has;
using testing::write_bytes;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const ops::TemplateText& file : read_templates(folder)) names.push_back(file.name);
  return names;
}

/// The error of a graph of one node whose folder has this text; "" where nothing is amiss.
std::string said_of_all(const std::string& text, const graph::Node& node, graph::Walk walk) {
  graph::Graph graph;
  graph.name = "g";
  graph.includes = {"own.cuh"};
  graph.nodes = {node};
  graph.walk = walk;
  try {
    check_templates(graph, "folder", {{"own.cuh", text}});
  } catch (const Error& error) {
    return error.message;
  }
  return "";
}
std::string said_of(const std::string& text, const graph::Node& node) {
  return said_of_all("Tile first_tile next_tile " + text, node, graph::Walk::persistent);
}
std::string said_of(const std::string& text) {
  graph::Node node;
  node.name = node.body = "body";
  node.context = "Own";
  return said_of(text, node);
}

}  // namespace

TEST_CASE("files of three endings are read, in folders too and by name; hidden ones and others are not") {
  const testing::Scratch scratch;
  for (const char* folder : {"b", ".git", "b/.cache"}) std::filesystem::create_directory(scratch / folder);
  for (const char* name : {"z.cuh", "a.hpp", "c.h", "b/inner.cuh", ".hidden.cuh", ".git/x.cuh", "b/.cache/y.cuh",
                           "notes.txt", "code.cpp", "cuh"})
    write_bytes(scratch / name, name);
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"a.hpp", "b/inner.cuh", "c.h", "z.cuh"});
  CHECK(read_templates(scratch.path())[1].text == "b/inner.cuh");
}

TEST_CASE("256 files and 4 MiB are read, one more of either is refused by name") {
  const testing::Scratch scratch;
  for (int i = 0; i < 256; ++i) write_bytes(scratch / std::to_string(i) + ".cuh", "");
  CHECK(names_in(scratch.path()).size() == 256);
  write_bytes(scratch / "one_more.cuh", "");
  CHECK(has(error_of([&] { read_templates(scratch.path()); }).message, "has more than 256 files"));
  const testing::Scratch large;
  write_bytes(large / "a.cuh", std::string(std::size_t{1} << 21, ' '));
  write_bytes(large / "b.cuh", std::string(std::size_t{1} << 21, ' '));
  CHECK(names_in(large.path()).size() == 2);
  write_bytes(large / "c.cuh", " ");
  CHECK(has(error_of([&] { read_templates(large.path()); }).message, "have more than 4194304 bytes"));
}

TEST_CASE("a name is a word outside of comments: strings hide none, and parts of words are none") {
  CHECK(said_of("Own body") == "");
  CHECK(said_of("Own\nbody") == "");
  CHECK(said_of("Own;body(") == "");
  for (const char* text : {"Own bodyx", "Own xbody", "Own body_", "Own // body", "Own /* body */", "Own // x // body\n",
                           "Own /* x\n body */ ", "Own /* // */ /* body", "Own body2"})
    CHECK_MESSAGE(has(said_of(text), "for node 'body' the body 'body'"), std::string(text));
  for (const char* text :
       {"Own // x\nbody", "Own /* x */body", "Own \"//\" body", "Own \"/*\" body", "Own '\"' body",
        "Own \"\\\"//\" body", "Own a / b body", "Own /**/ body", "Own xbody body", "Own \"open\nbody"})
    CHECK_MESSAGE(said_of(text) == "", std::string(text), ": ", said_of(text));
  CHECK(has(said_of("body"), "for node 'body' the context 'Own'"));
}

TEST_CASE("what a node's kind asks for besides is looked for, and only then") {
  graph::Node node;
  node.name = node.body = "body";
  node.context = "Own";
  node.async = graph::Async::matrix;
  CHECK(has(said_of("Own body", node), "which runs on the matrix unit, the function 'body_done'"));
  CHECK(said_of("Own body body_done", node) == "");
  node.async = graph::Async::copy;
  CHECK(said_of("Own body", node) == "");
  node.range = {"Fast", "fast_begin", {}};
  CHECK(has(said_of("Own body", node), "the function 'fast_begin'"));
  CHECK(said_of("Own body fast_begin", node) == "");
}

TEST_CASE("a walk asks for the names by which a unit comes to its tiles") {
  graph::Node node;
  node.name = node.body = "body";
  node.context = "Own";
  const auto said = [&](graph::Walk walk, const std::string& names) {
    return said_of_all("Own body " + names, node, walk);
  };
  const std::string whole = "Tile tile_at tile_count tile_iterations cut_tile ";
  CHECK(said(graph::Walk::split, whole) == "");
  for (const std::string& missing :
       std::vector<std::string>{"Tile", "tile_at", "tile_count", "tile_iterations", "cut_tile"}) {
    std::string names = whole;
    names.erase(names.find(missing + " "), missing.size() + 1);
    CHECK_MESSAGE(has(said(graph::Walk::split, names), "the name '" + missing + "'"), missing);
  }
  for (const std::string& missing : std::vector<std::string>{"Tile", "tile_at", "tile_iterations", "cut_tile"}) {
    std::string names = whole;
    names.erase(names.find(missing + " "), missing.size() + 1);
    CHECK_MESSAGE(has(said(graph::Walk::sliced, names), "the name '" + missing + "'"), missing);
  }
  CHECK(said(graph::Walk::sliced, "Tile tile_at tile_iterations cut_tile") == "");
  CHECK(has(said(graph::Walk::dynamic, whole), "the name 'first_tile'"));
  CHECK(said(graph::Walk::dynamic, "Tile first_tile tile_at tile_count") == "");
}
