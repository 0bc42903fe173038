#!/usr/bin/env python3
"""tools/changed.py: which suites a change touches, by the includes of this tree."""
# Covers tools/changed.py.
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))
import changed  # noqa: E402


class Labels(unittest.TestCase):
    def test_of_files(self):
        for name, labels in (("docs/testing.md", []), ("tools/plan/options.cc", ["plan"]), ("tests/hosts/hosts_test.py", ["hosts"]),
                             ("src/kernels/slot.cc", ["cuda_binary", "kernels", "ptx"]), ("tests/hostile/forgery.h", ["hostile"]),
                             # by a path that leaves the folder of the file that includes it
                             ("bench/device/chain.h", ["device"])):
            self.assertEqual(changed.labels({name}), labels, name)

    def test_a_changed_source_touches_who_includes_its_header(self):
        labels = changed.labels({"src/net/acceptor.cc"})
        for label in ("net", "comm", "api", "hostile"):
            self.assertIn(label, labels)
        for label in ("kernels", "schedule", "plan"):
            self.assertNotIn(label, labels)

    def test_the_build_touches_everything(self):
        self.assertLessEqual(set(changed.PROGRAMS), set(changed.labels({"cmake/precompiled.cmake"})))

    def test_changes_together_touch_what_each_touches(self):
        self.assertEqual(changed.labels({"tools/plan/options.cc", "tools/sim/options.cc"}), ["plan", "sim"])


if __name__ == "__main__":
    unittest.main()
