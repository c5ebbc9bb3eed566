// A launch knows its kernel by this: a struct of the op's own, from the candidate through the cache entry to
// plan().
//
//   struct WalkLaunch { bool walks; };
//   constexpr std::array kWalkGeometry = {geometry_field<&WalkLaunch::walks>("walks")};
//
// Decides how such a struct is kept, and under which names its members stand in an entry. Which members an op has is
// the op's. Invariant: members read back have the numbers that were written; a number that its member may not have is
// refused.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

namespace tj::ops {

/// The bytes of such a struct; all zero where an op has none.
class Geometry {
 public:
  static constexpr std::size_t kBytes = 64;

  template <class Launch>
  static Geometry of(const Launch& launch) {
    check<Launch>();
    Geometry geometry;
    std::memcpy(geometry.bytes_.data(), &launch, sizeof(Launch));
    return geometry;
  }
  /// Launch is the type that of() was given. Allocates nothing.
  template <class Launch>
  Launch as() const {
    check<Launch>();
    Launch launch;
    std::memcpy(&launch, bytes_.data(), sizeof(Launch));
    return launch;
  }

 private:
  template <class Launch>
  static constexpr void check() {
    static_assert(std::is_trivially_copyable_v<Launch> && sizeof(Launch) <= kBytes,
                  "what a launch must know is plain bytes, at most 64 of them");
  }
  alignas(8) std::array<std::byte, kBytes> bytes_{};
};

/// A member under its name in a cache entry, and the numbers that it may have.
struct GeometryField {
  const char* name;
  std::int64_t least, most;
  std::int64_t (*get)(const Geometry&);
  void (*set)(Geometry&, std::int64_t);  ///< of one of these numbers

  bool takes(std::int64_t number) const { return least <= number && number <= most; }
};
using GeometryFields = std::span<const GeometryField>;

namespace detail {
template <class>
struct MemberOf;
template <class Launch_, class Value_>
struct MemberOf<Value_ Launch_::*> {
  using Launch = Launch_;
  using Value = Value_;
};
template <auto kMember>
using LaunchOf = typename MemberOf<decltype(kMember)>::Launch;
template <auto kMember>
using ValueOf = typename MemberOf<decltype(kMember)>::Value;
}  // namespace detail

/// least, most: of an integer that a launch divides by or looks something up with; a truth is 0 or 1.
template <auto kMember>
constexpr GeometryField geometry_field(const char* name,
                                       std::int64_t least = std::numeric_limits<detail::ValueOf<kMember>>::min(),
                                       std::int64_t most = std::numeric_limits<detail::ValueOf<kMember>>::max()) {
  using Launch = detail::LaunchOf<kMember>;
  using Value = detail::ValueOf<kMember>;
  static_assert(std::is_integral_v<Value>, "a member of a geometry is an integer or a truth");
  return {name, least, most,
          [](const Geometry& geometry) { return static_cast<std::int64_t>(geometry.as<Launch>().*kMember); },
          [](Geometry& geometry, std::int64_t number) {
            Launch launch = geometry.as<Launch>();
            launch.*kMember = static_cast<Value>(number);
            geometry = Geometry::of(launch);
          }};
}

/// The geometry of ops whose kernels differ in nothing else that a launch must know.
struct WalkLaunch {
  bool walks = false;  ///< blocks do tile after tile; else one each
};
inline constexpr std::array kWalkGeometry = {geometry_field<&WalkLaunch::walks>("walks")};

}  // namespace tj::ops
