// Protects workspaces after a fork: runs of the parent's threads, which the child does not have, hold none of its own.
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>

#include "workspace_use.hpp"

namespace {

using tj::WorkspaceUse;

bool clashes(std::uintptr_t workspace) {
  return WorkspaceUse(reinterpret_cast<const void*>(workspace), nullptr, true).clash();
}

/// The exit status of a child that asks; -1: it did not end by itself.
int asked_by_child(std::uintptr_t workspace) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(clashes(workspace) ? 1 : 0);
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

TEST_CASE("a forked child may use a workspace that its parent was using") {
  constexpr std::uintptr_t kWorkspace = 0x10000;
  const WorkspaceUse run(reinterpret_cast<const void*>(kWorkspace), nullptr, true);
  CHECK_FALSE(run.clash());
  CHECK(clashes(kWorkspace));
  CHECK(asked_by_child(kWorkspace) == 0);
  CHECK(clashes(kWorkspace));  // the parent's run goes on
}

}  // namespace
