"""Protects tilejit.h and its parts: they are plain C11, declare exactly what the library exports, and their structures are laid
out as the ctypes binding says."""
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import binding as tj
import binding_groups
import skips

ROOT = os.environ["TJ_TEST_REPO_DIR"]
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
STRUCTURES = {"tj_device": tj.Device, "tj_tensor": tj.Tensor, "tj_fmha_args": tj.FmhaArgs, "tj_gemm_args": tj.GemmArgs, "tj_grouped_gemm_args": tj.GroupedGemmArgs,
              "tj_quantise_args": tj.QuantiseArgs, "tj_combine_args": tj.CombineArgs, "tj_merge_states_args": tj.MergeStatesArgs, "tj_context_fmha_args": binding_groups.ContextFmhaArgs, "tj_context_decode_args": binding_groups.ContextDecodeArgs, "tj_split_gemm_args": binding_groups.SplitGemmArgs, "tj_chunk_indices_args": tj.ChunkIndicesArgs, "tj_chunk_o_args": tj.ChunkOArgs, "tj_gated_delta_rule_args": tj.GatedDeltaRuleArgs, "tj_chunk_cumsum_args": tj.ChunkCumsumArgs, "tj_chunk_solve_args": tj.ChunkSolveArgs, "tj_chunk_wu_args": tj.ChunkWuArgs, "tj_chunk_states_args": tj.ChunkStatesArgs,
              "tj_kernel_report": tj.KernelReport, "tj_options": tj.Options,
              "tj_tune_options": tj.TuneOptions, "tj_tune_report": tj.TuneReport, "tj_plan_info": tj.PlanInfo, "tj_trim_report": tj.TrimReport,
              "tj_custom_description": tj.CustomDescription, "tj_box": tj.Box, "tj_prepare_options": tj.PrepareOptions, "tj_progress": tj.Progress}


class Header(unittest.TestCase):
    def test_declares_what_the_binding_calls(self):
        declared = set()
        for path in Path(ROOT, "include", "tilejit").glob("*.h"):
            declared |= set(re.findall(r"TJ_C_API [^;(]*?\b(tj_\w+)\(", path.read_text(encoding="utf-8")))
        self.assertEqual(declared, set(tj.Library().functions))

    @unittest.skipUnless(COMPILER, "no C compiler")
    def test_is_c11_and_laid_out_as_bound(self):
        lines = ["#include <tilejit/tilejit.h>", "#include <stdio.h>", "#include <stddef.h>", "int main(void) {",
                 "  tj_options options;", "  tj_options_init(&options);", "  if (tj_run(NULL, NULL, NULL, NULL) != TJ_INVALID_ARGUMENT) return 1;"]
        expected = []
        for name, structure in STRUCTURES.items():
            lines.append(f'  printf("{name} %zu\\n", sizeof({name}));')
            expected.append(f"{name} {ctypes.sizeof(structure)}")
            for field, *_ in structure._fields_:
                lines.append(f'  printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
                expected.append(f"{name}.{field} {getattr(structure, field).offset}")
        lines += ["  return 0;", "}"]
        lines[0:0] = ["#include <tilejit/preparation.h>"]  # a part alone brings the rest
        library = os.environ["TJ_TEST_LIBRARY"]
        with tempfile.TemporaryDirectory() as folder:
            source, program = os.path.join(folder, "t.c"), os.path.join(folder, "t")
            with open(source, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
            subprocess.run([COMPILER, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wstrict-prototypes",
                            "-I", os.path.join(ROOT, "include"), source, "-o", program, library,
                            "-Wl,-rpath," + os.path.dirname(library)], check=True)
            output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        self.assertEqual(output.splitlines(), expected)


if __name__ == "__main__":
    skips.main()
