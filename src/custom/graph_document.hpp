// tj::Graph as the JSON document that graph/json_reader.hpp reads, both ways.
//
// Decides which member is which key. Checks nothing that the reader checks: a graph in code and its text have the same
// defaults, limits and messages, because the reader sees both. Invariant: from_document(to_document(graph)) is `graph`.
#pragma once

#include <string>

#include <tilejit/graph.hpp>

#include "custom/document.hpp"
#include "graph/graph.hpp"
#include "graph/json_tree.hpp"

namespace tj {

/// Throws tj::Error(graph) for a machine that has both a name and a description, and for a key that would be there
/// twice.
std::string to_document(const Graph& graph);
/// The same as a tree.
graph::Json document_json(const Graph& graph);
/// The graph of a document that the reader has taken.
Graph from_document(const graph::Json& document);

/// The machine of a document: a name or an object. Throws tj::Error(graph).
Graph::Machine read_machine(const graph::Json& json);

/// The document as it is read. Throws tj::Error(graph).
Document document_of(const Graph& graph);
/// The graph on its machine, with the parameters as they stand. Throws tj::Error(graph).
graph::Graph read_document(const Graph& graph);
/// The document's text without members that have their defaults, for graphs that say more than one graph does; empty
/// for others.
std::string text_of_document(const Graph& graph);

}  // namespace tj
