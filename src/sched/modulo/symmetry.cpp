// Colours by refinement, then exchanges grown from one pair of equal colour and checked edge by edge (see
// symmetry.hpp).
#include "sched/modulo/symmetry.hpp"
#include "support/index.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>

namespace tj::sched {
namespace {

using support::at;

constexpr int kAttempts = 512;  ///< exchanges tried; what is not found costs time only
constexpr int kMostNodes = 128;

/// One end of an edge as its node sees it.
struct Link {
  bool out = false;
  int delay = 0, distance = 0, other = 0;
  auto label() const { return std::tuple(out, delay, distance); }
};

class Exchanges {
 public:
  explicit Exchanges(const Problem& problem)
      : problem_(problem), links_(at(problem.size())), colour_(at(problem.size()), 0) {
    for (const graph::Edge& edge : problem.edges) {
      links_[at(edge.src)].push_back({true, edge.delay, edge.distance, edge.dst});
      links_[at(edge.dst)].push_back({false, edge.delay, edge.distance, edge.src});
      edges_.emplace_back(edge.src, edge.dst, edge.delay, edge.distance);
    }
    std::sort(edges_.begin(), edges_.end());
    paint();
  }

  std::vector<std::pair<int, int>> find() {
    std::vector<std::pair<int, int>> result;
    int attempts = 0;
    for (int a = 0; a < problem_.size(); ++a)
      for (int b = a + 1; b < problem_.size() && attempts < kAttempts; ++b) {
        if (colour_[at(a)] != colour_[at(b)]) continue;
        ++attempts;
        if (!grow(a, b) || !maps_onto_itself()) continue;
        int first = 0;
        while (image_[at(first)] == first) ++first;
        const std::pair<int, int> found(first, image_[at(first)]);
        if (std::find(result.begin(), result.end(), found) == result.end()) result.push_back(found);
      }
    return result;
  }

 private:
  /// Nodes of one colour look alike from as far as edges reach.
  void paint() {
    using Use = std::tuple<int, int, int, int>;
    std::map<std::pair<int, std::vector<Use>>, int> first;
    for (int i = 0; i < problem_.size(); ++i) {
      std::vector<Use> uses;
      for (const graph::Reservation& use : problem_.uses[at(i)])
        uses.emplace_back(use.unit, use.start, use.cycles, use.count);
      std::sort(uses.begin(), uses.end());
      colour_[at(i)] = first.emplace(std::pair(problem_.length[at(i)], std::move(uses)), static_cast<int>(first.size()))
                           .first->second;
    }
    for (std::size_t colours = first.size(), before = 0; colours != before;) {
      using Seen = std::vector<std::tuple<bool, int, int, int>>;
      std::map<std::pair<int, Seen>, int> next;
      std::vector<int> painted(colour_.size());
      for (int i = 0; i < problem_.size(); ++i) {
        Seen seen;
        for (const Link& link : links_[at(i)])
          seen.emplace_back(link.out, link.delay, link.distance, link.other == i ? -1 : colour_[at(link.other)]);
        std::sort(seen.begin(), seen.end());
        painted[at(i)] =
            next.emplace(std::pair(colour_[at(i)], std::move(seen)), static_cast<int>(next.size())).first->second;
      }
      colour_ = std::move(painted);
      before = colours;
      colours = next.size();
    }
  }

  bool linked(int node, const Link& like) const {
    const auto& list = links_[at(node)];
    return std::any_of(list.begin(), list.end(),
                       [&](const Link& each) { return each.other == like.other && each.label() == like.label(); });
  }

  void swap(int a, int b) {
    image_[at(a)] = b;
    image_[at(b)] = a;
    open_.emplace_back(a, b);
  }

  /// Follows edges from a and b side by side; a neighbour of both stays where it is.
  bool grow(int a, int b) {
    image_.assign(at(problem_.size()), -1);
    open_.clear();
    swap(a, b);
    while (!open_.empty()) {
      const int left = open_.back().first, right = open_.back().second;
      open_.pop_back();
      for (const Link& link : links_[at(left)]) {
        if (image_[at(link.other)] >= 0) continue;
        if (linked(right, link)) {
          image_[at(link.other)] = link.other;
          continue;
        }
        const auto partner = std::find_if(links_[at(right)].begin(), links_[at(right)].end(), [&](const Link& each) {
          return each.label() == link.label() && image_[at(each.other)] < 0 &&
                 colour_[at(each.other)] == colour_[at(link.other)] && !linked(left, each);
        });
        if (partner == links_[at(right)].end()) return false;
        swap(link.other, partner->other);
      }
    }
    for (int i = 0; i < problem_.size(); ++i)
      if (image_[at(i)] < 0) image_[at(i)] = i;
    return true;
  }

  /// Equal colours have equal units and lengths; what is left to check are the edges.
  bool maps_onto_itself() const {
    std::vector<std::tuple<int, int, int, int>> moved;
    for (const auto& [src, dst, delay, distance] : edges_)
      moved.emplace_back(image_[at(src)], image_[at(dst)], delay, distance);
    std::sort(moved.begin(), moved.end());
    return moved == edges_;
  }

  const Problem& problem_;
  std::vector<std::vector<Link>> links_;
  std::vector<int> colour_;
  std::vector<std::tuple<int, int, int, int>> edges_;
  std::vector<int> image_;
  std::vector<std::pair<int, int>> open_;
};

}  // namespace

std::vector<std::pair<int, int>> exchangeable(const Problem& problem) {
  if (problem.size() > kMostNodes) return {};
  return Exchanges(problem).find();
}

}  // namespace tj::sched
