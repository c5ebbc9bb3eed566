// Listings of chunks with the answer of a loop over the sequences, on any device: for the tests of the model and of
// GPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

namespace tj::test {

using Ints = std::vector<std::int32_t>;

/// cu_seqlens of sequences that follow each other from `start` on.
Ints ends_of(const Ints& lengths, std::int32_t start = 0);
/// The list as a loop over the sequences makes it: a sequence and a chunk of it, again and again.
Ints chunks_of(const Ints& ends);

/// Lists the chunks with room for `capacity` pairs, `pitch` elements apart, between poison, and compares all that is in
/// memory afterwards. "" or what is wrong, where.
std::string list_chunks(Runtime& runtime, Device device, const Ints& ends, std::size_t capacity, std::size_t pitch = 2);
/// With as much room as there are chunks.
std::string list_chunks_of(Runtime& runtime, Device device, const Ints& lengths, std::int32_t start = 0);

/// Numbers around which sequences of no chunk, of one, of many are drawn: `count` of them, one of 20000 tokens.
Ints random_lengths(std::size_t count, std::uint64_t seed);

}  // namespace tj::test
