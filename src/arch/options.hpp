// Options behind an arch's name in a target: they take something away from it.
//
// Decides their grammar and what each takes (options.cpp); not which archs there are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "arch/arch.hpp"

namespace tj::arch {

/// "sm_90" of "sm_90+smem=99K".
std::string_view name_before_options(std::string_view text);
bool has_options(std::string_view text);
/// The list of options, for messages.
std::string options_help();
/// The base with what the options of `text` leave of it; the base itself where they take nothing. Made once, lives as
/// long as the process; any thread may call it. Throws tj::Error(target, invalid_argument) that names the option, its
/// value and what is allowed.
const Arch& with_options(std::string_view text, const Arch& base);
/// The arch with at most so much shared memory for a block, where it has no cap of its own.
const Arch& capped(const Arch& arch, std::int64_t smem_bytes);
/// An arch with options that was made, by its own name; else null.
const Arch* find_made(std::string_view name);

}  // namespace tj::arch
