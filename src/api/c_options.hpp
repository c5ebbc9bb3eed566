// The options of a runtime, as C gives them.
#pragma once

#include <tilejit/tilejit.h>

#include <tilejit/runtime.hpp>

namespace tj::c_api {

/// Null: the defaults. Throws tj::Error(argument) naming the field.
Options to_options(const tj_options* given);

}  // namespace tj::c_api
