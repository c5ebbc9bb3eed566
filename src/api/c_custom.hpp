// A kernel of the user's own as C holds it.
#pragma once

#include <tilejit/tilejit.h>

#include <tilejit/custom.hpp>

struct tj_custom {
  tj::custom::Kernel kernel;
};

namespace tj::c_api {

/// Throws tj::Error(argument) for null.
const custom::Kernel& kernel_of(const tj_custom* kernel);

}  // namespace tj::c_api
