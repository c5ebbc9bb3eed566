"""Protects what tests/setup.sh does about PyTorch: it takes one that is here, fetches its wheels once where the disk has room, and keeps the reason
for which there is none."""
import os
import subprocess
import tempfile
import unittest

import here

# The commands of the script, as functions: Python finds torch or not, pip leaves a module or an error, and the disk is as free as it is told.
STAND_INS = """
. "$REPO/tests/setup.sh"; tj_root="$PWD"
/usr/bin/python3() {
  case "$*" in
    *find_spec*) [ "$HAVE" = 1 ] ;;
    *--version*) true ;;
    *install*) echo fetched >>calls; [ "$PIP" = 0 ] || { echo 'WARNING: slow'; echo 'ERROR: no such wheel'; return "$PIP"; }
               mkdir -p .deps/torch.part/torch ;;
    *"import torch"*) [ "$IMPORT" = 0 ] || { echo 'Traceback'; echo 'ImportError: no libfoo'; return 1; } ;;
  esac
}
python3() { /usr/bin/python3 "$@"; }
timeout() { shift; "$@"; }
df() { printf 'Filesystem 1024-blocks Used Available Capacity Mounted\\n/dev/x 1 1 %s 1%% /\\n' "$FREE"; }
tj_setup_torch; tj_setup_torch
"""
PLENTY = str(50 << 20)


class Setup(unittest.TestCase):
    def run_setup(self, have="0", pip="0", imports="0", free=PLENTY):
        """(what was said, how often pip ran, whether torch is there, the reason that tests give)"""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["bash", "-c", STAND_INS], cwd=folder, capture_output=True, text=True,
                                  env=dict(os.environ, REPO=here.ROOT, HAVE=have, PIP=pip, IMPORT=imports, FREE=free))
            self.assertEqual((done.returncode, done.stderr), (0, ""))

            def text(name):
                if not os.path.exists(os.path.join(folder, name)):
                    return ""
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    return file.read().strip()
            self.assertFalse(os.path.exists(os.path.join(folder, ".deps", "torch.part")))
            return done.stdout, text("calls").count("fetched"), os.path.isdir(os.path.join(folder, ".deps", "torch", "torch")), text(".deps/torch.why")

    def test_one_that_is_here(self):
        self.assertEqual(self.run_setup(have="1"), ("", 0, False, ""))

    def test_fetched(self):
        said, calls, there, why = self.run_setup()
        self.assertEqual((calls, there, why), (1, True, ""))
        self.assertNotIn("skipped", said)

    def test_no_room(self):
        said, calls, there, why = self.run_setup(free=str(11 << 20))
        self.assertEqual((calls, there, why), (0, False, "the disk has 11 GB free, and fetching PyTorch wants 12"))
        self.assertIn(why, said)

    def test_not_fetched(self):
        """The second call tries nothing."""
        for options, reason in ((dict(pip="1"), "ERROR: no such wheel"), (dict(pip="124"), "within 300 s"), (dict(imports="1"), "ImportError: no libfoo")):
            said, calls, there, why = self.run_setup(**options)
            self.assertEqual((calls, there), (1, False))
            self.assertIn(reason, why)
            self.assertEqual(said.count("tests that need it are skipped"), 1)


if __name__ == "__main__":
    here.skips.main()
