// Options and reports of measurements, as C has them.
#pragma once

#include <tilejit/tilejit.h>

#include <tilejit/tune.hpp>

namespace tj::c_api {

/// Null: the defaults. Throws tj::Error(argument) naming the field.
TuneOptions to_tune_options(const tj_tune_options* given);
/// Throws tj::Error(argument) for a report of another version. Null is none.
void check_tune_report(const tj_tune_report* report);
/// The texts live until the thread's next report.
void write_tuned(TuneReport&& report, tj_tune_report* out);

}  // namespace tj::c_api
