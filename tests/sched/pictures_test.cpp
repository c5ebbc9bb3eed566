// Protects pictures of schedules: well-formed, complete, readable (no text on other text or across a box), and traces
// whose durations are the reservations'.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "graph/examples.hpp"
#include "sched/attention_graph.hpp"
#include "sched/picture/picture.hpp"
#include "sched/picture/svg.hpp"
#include "sched/picture/svg_page.hpp"
#include "sched/picture/tiles.hpp"
#include "sched/picture/trace.hpp"
#include "sched/random_graphs.hpp"
#include "sched/svg_check.hpp"
#include "sched/tile_level.hpp"

namespace {

using namespace tj;
using graph::Graph;
using test::Element;

Graph random_of(int nodes, int max_cycles, int max_delay, int max_capacity, std::uint64_t seed) {
  test::RandomShape shape;
  shape.nodes = nodes;
  shape.units = 4;
  shape.max_cycles = max_cycles;
  shape.max_delay = max_delay;
  shape.max_capacity = max_capacity;
  shape.extra_reservations = 20;
  return test::random_graph(shape, seed);
}

Graph oddly_named() {
  Graph graph = random_of(12, 30, 200, 3, 5);
  for (auto& node : graph.nodes) node.name = "a_rather_long_name<&\"'>]]>_of_" + node.name;
  graph.nodes[1].name = "\xE5\x90\x8D\xE5\x89\x8D \xFF\x01\xED\xA0\x80\t--> \xE2\x80";
  for (std::size_t i = 0; i < graph.nodes.size(); i += 3) {
    graph.nodes[i].reservations.clear();
    graph.nodes[i].cycles = static_cast<int>(i % 2);
    graph.nodes[i].latency = 0;
  }
  graph.name = "<graph & 'machine'>";
  graph.machine.units[0].name = "a_functional_unit_with_a_long_name";
  return graph;
}

std::vector<Graph> graphs() {
  std::vector<Graph> list = {test::attention_graph(), oddly_named(), random_of(40, 120, 600, 1, 7),
                             random_of(40, 2, 3, 3, 3), random_of(3, 1, 200, 1, 2)};
  for (const std::string& name : graph::example_names()) list.push_back(graph::example(name));
  return list;
}

struct Area {
  double left = 0, top = 0, right = 0, bottom = 0;
  std::string what;
  bool meets(const Area& other) const {
    return left < other.right - 0.15 && other.left < right - 0.15 && top < other.bottom && other.top < bottom;
  }
  bool inside(const Area& other) const {
    return left >= other.left && right <= other.right + 0.15 && top >= other.top && bottom <= other.bottom;
  }
};

double letter_width(const std::string& css) {
  if (css == "t") return 9.7;
  if (css == "h") return 7.9;
  return css.empty() ? 6.65 : 6.05;
}

std::string plain(std::string text) {
  const std::map<std::string, std::string> references = {
      {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}};
  for (const char* key : {"&lt;", "&gt;", "&quot;", "&#39;", "&amp;"})
    for (std::size_t at = 0; (at = text.find(key, at)) != std::string::npos; ++at)
      text.replace(at, std::string(key).size(), references.at(key));
  return text;
}

Area area_of(const Element& element) {
  const double x = element.number("x"), y = element.number("y");
  if (element.name == "rect") return {x, y, x + element.number("width"), y + element.number("height"), "box"};
  const std::string text = plain(element.text);
  return {x, y - 8, x + sched::columns(text) * letter_width(element.css()), y + 2, text};
}

/// A page of other rows than the schedule's. Each role has a row of the prediction, and below it the same a little
/// later, with a wait.
sched::Sheet sheet_of(const Graph& graph, const sched::Schedule& schedule) {
  sched::Sheet sheet;
  sheet.title = "<a sheet> of " + graph.name;
  sheet.remarks = {"a remark", std::string(300, 'r')};
  sheet.heading = "rows";
  sheet.first_iteration = 1;
  sheet.view.window = std::max(1, schedule.length) + 3 * schedule.ii;
  for (int role = 0; role < static_cast<int>(schedule.roles.size()); ++role)
    for (const int late : {0, 5}) {
      sched::Row row;
      row.name = schedule.roles[static_cast<std::size_t>(role)].name;
      row.note = late > 0 ? "measured, cycles" : "predicted";
      std::vector<sched::Box> boxes = sched::role_boxes(graph, schedule, role, 0, 4);
      for (sched::Box& box : boxes) {
        box.begin += late;
        box.issued += late;
        box.end += late;
      }
      if (late > 0 && !boxes.empty()) {
        row.waits = {boxes.front()};
        row.waits[0].node = -1;
        row.waits[0].label = "<nobody>";
      }
      std::erase_if(boxes, [&](const sched::Box& box) { return box.begin >= sheet.view.window; });
      row.tracks = sched::tracks_of(std::move(boxes));
      sheet.view.rows.push_back(std::move(row));
    }
  return sheet;
}

/// Text on other text, across a box or off the page, and boxes on each other: a line each.
std::string faults_of(const std::string& svg) {
  const std::vector<Element> elements = test::SvgReader(svg).read();
  const Area page = {0, 0, elements.front().number("width"), elements.front().number("height"), "page"};
  std::vector<Area> texts, boxes;
  for (const Element& element : elements) {
    if (element.name == "text") texts.push_back(area_of(element));
    if (element.name == "rect" && element.css() == "frame") boxes.push_back(area_of(element));
  }
  std::string wrong;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i].inside(page)) wrong += "off the page: " + texts[i].what + "\n";
    for (std::size_t j = 0; j < i; ++j)
      if (texts[i].meets(texts[j])) wrong += texts[i].what + " on " + texts[j].what + "\n";
    for (const Area& box : boxes)
      if (texts[i].meets(box) && !texts[i].inside(box)) wrong += texts[i].what + " across a box\n";
  }
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (!boxes[i].inside(page)) wrong += "a box off the page\n";
    for (std::size_t j = 0; j < i; ++j)
      if (boxes[i].meets(boxes[j])) wrong += "a box on another at " + std::to_string(boxes[i].left) + "\n";
  }
  return wrong;
}

}  // namespace

TEST_CASE("an SVG is well-formed, self-contained and shows every node of the loop") {
  for (const Graph& graph : graphs()) {
    const std::string name = graph.name;
    CAPTURE(name);
    const sched::Schedule schedule = sched::schedule(graph);
    REQUIRE(sched::verify(graph, schedule).empty());
    const std::string svg = sched::to_svg(graph, schedule);
    CHECK(svg == sched::to_svg(graph, schedule));
    for (const char* outside : {"href", "url(", "<script", "@import", "<image"})
      CHECK(svg.find(outside) == std::string::npos);
    std::vector<Element> elements;
    REQUIRE_NOTHROW(elements = test::SvgReader(svg).read());
    CHECK(elements.front().name == "svg");
    CHECK(elements.front().number("width") == 1200);
    std::string titles;
    for (const Element& element : elements)
      if (element.name == "title") titles += "\n" + element.text;
    for (const graph::Node& node : graph.nodes) {
      if (node.scope != graph::Scope::iteration) continue;
      CHECK(titles.find("\n" + sched::escaped(node.name) + " #0") != std::string::npos);
      CHECK(titles.find("\n" + sched::escaped(node.name) + " iteration i") != std::string::npos);
    }
  }
}

TEST_CASE("every row has its name and, below it, its note: how busy a unit is, how many warps a role has") {
  for (const Graph& graph : {test::attention_graph(), random_of(40, 120, 600, 1, 7)}) {
    const sched::Schedule schedule = sched::schedule(graph);
    const sched::Picture picture = sched::make_picture(graph, schedule);
    std::multiset<std::string> drawn;
    for (const Element& element : test::SvgReader(sched::to_svg(graph, schedule)).read())
      if (element.name == "text") drawn.insert(plain(element.text));
    int notes = 0;
    for (const sched::Row& row : picture.steady.rows) {
      CAPTURE(row.name);
      CHECK(drawn.count(row.name) > 0);
      if (row.note.empty()) continue;
      ++notes;
      REQUIRE(drawn.count(row.note) > 0);
      drawn.erase(drawn.find(row.note));  // one each
    }
    CHECK(notes > 2);
  }
}

TEST_CASE("text lies on no other text, inside its box or outside all of them, and on the page") {
  for (const Graph& graph : graphs()) {
    const std::string name = graph.name;
    CAPTURE(name);
    const sched::Schedule schedule = sched::schedule(graph);
    CHECK(faults_of(sched::to_svg(graph, schedule)) == "");
    CHECK(faults_of(sched::to_svg(graph, schedule, sheet_of(graph, schedule))) == "");
  }
}

TEST_CASE("a unit of one instance has one track, and its boxes do not overlap") {
  for (const Graph& graph : graphs()) {
    const sched::Picture picture = sched::make_picture(graph, sched::schedule(graph));
    for (const sched::Row& row : picture.steady.rows) {
      const int unit = graph.machine.unit_index(row.name);
      if (unit >= 0 && graph.machine.units[static_cast<std::size_t>(unit)].capacity == 1) CHECK(row.tracks.size() == 1);
      for (const sched::Track& track : row.tracks) {
        std::int64_t free_from = -1000000;
        for (const sched::Box& box : track.boxes) {
          if (box.end == box.begin) continue;
          CHECK(box.begin >= free_from);
          free_from = box.end;
        }
      }
    }
  }
}

TEST_CASE("a trace is JSON; each reservation lasts as long as it is held, in both periods") {
  for (const Graph& graph : graphs()) {
    const sched::Schedule schedule = sched::schedule(graph);
    const std::string text = sched::to_trace(graph, schedule);
    CHECK(text == sched::to_trace(graph, schedule));
    const auto events = nlohmann::json::parse(text).at("traceEvents");
    std::set<std::pair<int, int>> named;
    std::multiset<std::pair<std::string, int>> held, expected;
    for (const auto& event : events) {
      const std::pair<int, int> thread(event.at("pid").get<int>(), event.at("tid").get<int>());
      if (event.at("ph") == "M") {
        if (event.at("name") == "thread_name") CHECK(named.insert(thread).second);
        continue;
      }
      REQUIRE(event.at("ph") == "X");
      CHECK(named.count(thread) == 1);
      CHECK(event.at("ts") >= 0);
      CHECK(event.at("dur") >= 0);
      if (thread.first == 1) held.emplace(event.at("name").get<std::string>(), event.at("dur").get<int>());
    }
    for (const graph::Node& node : graph.nodes) {
      if (node.scope != graph::Scope::iteration) continue;
      const std::string name = nlohmann::json::parse(nlohmann::json(node.name).dump(
                                                         -1, ' ', false, nlohmann::json::error_handler_t::replace))
                                   .get<std::string>();
      for (int period = 0; period < 2; ++period) {
        for (const graph::Reservation& use : node.reservations) expected.emplace(name, use.cycles);
        if (node.warp_cycles > 0) expected.emplace(name, node.warp_cycles);
        if (node.reservations.empty() && node.warp_cycles == 0) expected.emplace(name, node.cycles);
      }
    }
    CHECK(held == expected);
  }
}

TEST_CASE(
    "tiles that follow one another: each role's times a period apart, and the waits that set it from row to row") {
  const Graph graph = test::attention_graph();
  const sched::Schedule schedule = sched::schedule(graph);
  const auto level = sched::tile_level(graph, schedule);
  const auto tiles = sched::make_tile_picture(graph, schedule);
  REQUIRE(level);
  REQUIRE(tiles);
  CHECK(tiles->period == level->steady.period);
  CHECK(tiles->text.find(level->certificate) != std::string::npos);
  REQUIRE(tiles->rows.size() == schedule.roles.size());
  for (std::size_t r = 0; r < tiles->rows.size(); ++r) {
    const sched::TileRole& of = level->steady.roles[r];
    std::int64_t until = -1, loops = 0;
    for (const auto& piece : tiles->rows[r].pieces) {
      CHECK(piece.begin >= until);  // one after the other
      until = piece.end;
      if (piece.part != sched::TilePicture::Part::loop) continue;
      ++loops;
      CHECK(piece.begin == tiles->first + of.loop_begin + piece.tile * tiles->period);
      CHECK(piece.end - piece.begin == of.loop_end - of.loop_begin);
    }
    CHECK(until <= tiles->window);
    CHECK(loops == (of.loop_end > of.loop_begin ? sched::TilePicture::kTiles : 0));
  }
  REQUIRE(tiles->critical.size() == level->steady.critical.size() + 1);
  for (std::size_t i = 0; i < tiles->critical.size(); ++i) {
    const sched::TilePicture::Mark& mark = tiles->critical[i];
    CHECK(mark.name == (i == 0 ? level->steady.critical[0].from : level->steady.critical[i - 1].to));
    CHECK(mark.role >= 0);
    CHECK(mark.at >= 0);
    CHECK(mark.at <= tiles->window);
  }
  const std::string svg = sched::to_svg(graph, schedule), trace = sched::to_trace(graph, schedule);
  CHECK(svg.find("Tiles that follow one another") != std::string::npos);
  CHECK(svg.find("not drawn") == std::string::npos);
  CHECK(trace.find("tile 2: loop") != std::string::npos);
}

TEST_CASE("letters beyond ASCII stand in a trace and in a schedule's JSON as they are") {
  const Graph graph = oddly_named();
  const sched::Schedule schedule = sched::schedule(graph);
  for (const std::string& text : {sched::to_trace(graph, schedule), sched::to_json(graph, schedule)})
    CHECK(text.find("\xE5\x90\x8D\xE5\x89\x8D ") != std::string::npos);
}

TEST_CASE("a picture of more iterations in flight than anybody could look at is refused, with their number") {
  Graph graph = graph::simple_gemm();
  graph.nodes.front().latency = 1 << 20;  // legal, and intervals are a few cycles
  const sched::Schedule schedule = sched::schedule(graph);
  using Draw = std::string (*)(const Graph&, const sched::Schedule&);
  for (const Draw draw : {Draw{sched::to_svg}, Draw{sched::to_trace}}) {
    std::string said;
    try {
      draw(graph, schedule);
    } catch (const Error& e) {
      said = e.message;
    }
    CHECK_MESSAGE(said.find(" iterations in flight, of 3 instructions each, would have ") != std::string::npos, said);
    CHECK(said.find("; allowed: at most ") != std::string::npos);
  }
}

TEST_CASE("names are shortened in the middle and wrapped at blanks, by columns") {
  CHECK(sched::shortened("softmax.0", 9) == "softmax.0");
  CHECK(sched::shortened("softmax.0", 7) == "sof\xE2\x80\xA6x.0");
  CHECK(sched::shortened("softmax.0", 1) == "");
  CHECK(sched::columns("\xE5\x90\x8D") == 2);
  CHECK(sched::wrapped("one two three", 7) == std::vector<std::string>{"one two", "three"});
  CHECK(sched::wrapped("abcdefgh", 3) == std::vector<std::string>{"abc", "def", "gh"});
  CHECK(sched::wrapped("", 3).empty());
}

TEST_CASE("the legend lists what was drawn and nothing else") {
  const auto picture = [](const graph::Graph& graph) { return sched::to_svg(graph, sched::schedule(graph)); };
  const std::string plain = picture(graph::simplified_fa()), loads = picture(graph::fa_blackwell());
  for (const char* absent : {"in flight: issued", "role waits", "head: iteration 3", "iteration 0, 4"})
    CHECK_MESSAGE(plain.find(absent) == std::string::npos, absent);
  for (const char* there : {">head: iteration 0<", ">head: iteration 2<"})
    CHECK_MESSAGE(plain.find(there) != std::string::npos, there);
  for (const char* there : {"role waits", ">head: iteration 0, 4, ...<", ">head: iteration 3<"})
    CHECK_MESSAGE(loads.find(there) != std::string::npos, there);
  graph::Graph late = graph::simplified_fa();
  late.nodes[0].latency = 3;
  CHECK(picture(late).find("in flight: issued") != std::string::npos);
}
