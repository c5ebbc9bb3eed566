// A user's document: a graph whose numbers may be expressions, for several machines and in several forms.
//
// Decides what the keys mean that stand beside one graph: options, targets, parameters, candidates, and which members
// may be expressions. Reads no graph itself (ops::read_graph). Invariant: a document that was made is legal on each of
// its machines and in each form.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <tilejit/graph.hpp>

#include "custom/numbers.hpp"
#include "custom/trials.hpp"
#include "graph/graph.hpp"
#include "graph/json_fields.hpp"
#include "graph/json_tree.hpp"
#include "sched/schedule.hpp"

namespace tj {

/// One form of a document for one machine.
struct Form {
  graph::Graph graph;
  ScheduleOptions options;
  double typical_iterations = 1, useful_flops = 1;
  std::vector<std::string> definitions;
  std::string candidate;  ///< empty: the parameters as they stand
};

class Document {
 public:
  /// Throws tj::Error(graph, invalid_argument) that begins with the graph's name.
  Document(std::string_view text, std::string_view name);

  const graph::Json& tree() const { return tree_; }
  /// The machine and further targets, by name, with options in their order; empty where the machine is described.
  const std::vector<std::string>& targets() const { return targets_; }
  /// An empty target: the machine. An empty candidate: the parameters as they stand.
  Form form(std::string_view target, std::string_view candidate) const;
  /// Every form for a target.
  std::vector<Form> forms(std::string_view target) const;
  /// The tree of form(), without expressions, parameters, candidates, trials and further targets.
  graph::Json resolved(std::string_view target, std::string_view candidate) const;
  /// The names of candidates; none where there is one form.
  const std::vector<std::string>& candidates() const { return candidates_; }
  /// The trials of a form's kernel.
  std::vector<ResolvedTrial> trials(std::string_view target, std::string_view candidate) const;

 private:
  void read_targets();
  void read_candidates();
  void check_trials() const;
  graph::Json machine_of(std::string_view target) const;
  NumberReader numbers(const graph::Json& machine, std::string_view candidate) const;
  static graph::Json with_numbers(graph::Json tree, const NumberReader& numbers);
  std::string machine_for(std::string_view target) const;

  std::string name_, text_;
  graph::Fields fields_;
  graph::Json tree_;
  std::vector<std::string> targets_, candidates_;
};

/// Is it a name of a member of an instruction, an edge, a value or the graph that may be an expression?
bool may_be_expression(std::string_view list, std::string_view member);

/// The keys of tj::ScheduleOptions in an object; those that are left out are as in `usual`.
ScheduleOptions read_options(const graph::Fields& fields, const graph::Json& json, const std::string& place,
                             const ScheduleOptions& usual);

/// A form and its schedule.
struct ScheduledForm {
  Form form;
  sched::Schedule schedule;
};
/// The form that does most useful flops in a cycle, by the options given or, where there are none, by its own. Throws
/// tj::Error(schedule) where no form has a schedule.
ScheduledForm best_form(std::vector<Form> forms, const ScheduleOptions* options);

}  // namespace tj
