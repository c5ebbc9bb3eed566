// A launch knows its kernel by this: a struct of the op's own, from the candidate through the cache entry to
// plan().
//
//   struct WalkLaunch { bool walks; };
//   constexpr std::array kWalkGeometry = {geometry_field<&WalkLaunch::walks>("walks")};
//
// Decides how such a struct is kept, and under which names its members stand in an entry. Which members an op has is
// the op's. Invariant: members read back have the numbers that were written; a number that its member cannot hold is
// refused.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

/// A member under its name in a cache entry.
struct GeometryField {
  const char* name;
  std::int64_t (*get)(const Geometry&);
  /// False, and nothing is changed, where the member cannot hold the number.
  bool (*set)(Geometry&, std::int64_t);
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
}  // namespace detail

template <auto kMember>
constexpr GeometryField geometry_field(const char* name) {
  using Launch = typename detail::MemberOf<decltype(kMember)>::Launch;
  using Value = typename detail::MemberOf<decltype(kMember)>::Value;
  static_assert(std::is_integral_v<Value>, "a member of a geometry is an integer or a truth");
  return {name, [](const Geometry& geometry) { return static_cast<std::int64_t>(geometry.as<Launch>().*kMember); },
          [](Geometry& geometry, std::int64_t number) {
            const auto value = static_cast<Value>(number);
            if (static_cast<std::int64_t>(value) != number) return false;
            Launch launch = geometry.as<Launch>();
            launch.*kMember = value;
            geometry = Geometry::of(launch);
            return true;
          }};
}

/// Of ops whose kernels differ in nothing else that a launch must know.
struct WalkLaunch {
  bool walks = false;  ///< blocks do tile after tile; else one each
};
inline constexpr std::array kWalkGeometry = {geometry_field<&WalkLaunch::walks>("walks")};

}  // namespace tj::ops
