// A user's graph and folder as something that the pipeline makes kernels from.
//
// Decides what of a description is refused before anything is scheduled, and what of it is part of the cache key. Does
// not compile or launch (runtime.cpp). Invariant: equal identities give equal kernels.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tilejit/custom.hpp>

#include "custom/document.hpp"
#include "graph/graph.hpp"
#include "ops/common/graph_choice.hpp"
#include "ops/op.hpp"
#include "support/tensor_map.hpp"

namespace tj {

/// The op in requests of users' own kernels.
inline constexpr const char* kCustomOp = ops::kGraphOpName;

class CustomMaker final : public ops::Maker {
 public:
  /// The files must be checked already.
  CustomMaker(const custom::Description& description, Document document, std::vector<ops::TemplateText> templates);

  std::string_view name() const override { return kCustomOp; }
  std::vector<ops::Candidate> candidates(const ops::Request& request, const arch::Arch& arch) const override;
  const std::vector<ops::TemplateText>& templates() const override { return templates_; }

  const ops::Request& request() const { return request_; }
  /// The request of one candidate's kernel, whichever is predicted to do most.
  ops::Request request_of(const std::string& candidate) const;
  const Document& document() const { return document_; }
  /// By a choice: the place of a candidate, counted from 1; 0: whichever is predicted to do most.
  ops::Request request_of(int choice) const;
  /// The problem that is measured among candidates; null where there are none.
  const ops::Problem* problem() const { return problem_ ? &*problem_ : nullptr; }
  const ops::ProblemKey& problem_key() const { return problem_key_; }
  /// Differs wherever the kernels may.
  const std::string& identity() const { return identity_; }

 private:
  const custom::Description description_;
  const Document document_;
  std::vector<ops::TemplateText> templates_;
  ops::Request request_;
  std::string identity_;
  std::optional<ops::Problem> problem_;
  ops::ProblemKey problem_key_;
};

struct CustomLaunch {
  const void* params;
  std::size_t bytes;
  unsigned blocks;
};

/// The request whose fields these are; none where they are not those of a user's kernel. Nobody can make the kernel
/// from it, as it has only hashes of graph and files. It says where the kernel lies on disk.
std::optional<ops::Request> custom_request(const std::vector<std::pair<std::string, std::string>>& fields);

/// The candidate that a request names; empty where it names none.
std::string candidate_of(const ops::Request& request);

/// Reads the folder and the graph and checks that they fit each other. Throws tj::Error (see custom::Kernel).
std::unique_ptr<CustomMaker> read_custom(const custom::Description& description);

/// The *.cuh, *.hpp and *.h files of a folder, sorted by their paths below it. Throws tj::Error(argument).
std::vector<ops::TemplateText> read_templates(const std::string& folder);
/// Throws tj::Error(argument) naming what the graph needs and neither the files nor the library have.
void check_templates(const graph::Graph& graph, const std::string& folder, const std::vector<ops::TemplateText>& files);

/// Throws tj::Error(argument) for what is no view of memory; what the copy engine asks of one is checked when it is
/// encoded.
support::TensorMapDesc describe(const Tensor& tensor, const custom::Box& box);

}  // namespace tj
