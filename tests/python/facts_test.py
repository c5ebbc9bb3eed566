"""Protects a file of facts from Python: its facts are taken under a name of their own, and what is wrong with one is refused by name."""
import os
import tempfile
import unittest

import here
import tilejit


class Facts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "facts.json")

    def write(self, facts):
        with open(self.path, "w", encoding="ascii") as file:
            file.write('{"tilejit_facts": 1, "arch": "sm_90a", "facts": {%s}}' % facts)

    def test_a_file_of_facts(self):
        self.write('"exp2_per_cycle": 15')
        with tilejit.Runtime(target="model:sm_90a", facts_file=self.path) as runtime:
            self.assertRegex(runtime.target_of("cpu"), "^model:sm_90a[+]facts=[0-9a-f]{16}$")

    def test_what_is_refused(self):
        self.write('"exp2_per_cycle": 15')
        with self.assertRaisesRegex(tilejit.Error, "the target is 'sm_80'"):
            tilejit.Runtime(target="model:sm_80", facts_file=self.path)
        self.write('"exp2_per_cycle": 0')
        with self.assertRaisesRegex(tilejit.Error, "'facts.exp2_per_cycle' is '0'; allowed: numbers from 1 to 4096"):
            tilejit.Runtime(facts_file=self.path)
        with self.assertRaisesRegex(tilejit.Error, "facts_file is 3"):
            tilejit.Runtime(facts_file=3)


if __name__ == "__main__":
    here.skips.main()
