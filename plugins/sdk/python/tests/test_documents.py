"""The code in the documents runs."""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
from datetime import datetime, timezone
from pathlib import Path

from pilothouse import Index, ObjectRef, Write
from pilothouse.testing import FakeCluster

from things import asking, made

SDK = Path(__file__).parents[1]
ROOT = SDK.parents[2]


def blocks(path):
    """The Python code of a document."""
    found = re.findall(r"^( *)```python\n(.*?)^\1```$", path.read_text(), re.S | re.M)
    return [textwrap.dedent(code) for _, code in found]


class Documents(unittest.TestCase):
    def test_the_readmes_plugin_passes_its_test(self):
        with tempfile.TemporaryDirectory() as project:
            files = [re.match(r"# (\S+\.py)\n", code) for code in blocks(SDK / "README.md")]
            for named, code in zip(files, blocks(SDK / "README.md")):
                (Path(project) / named.group(1)).write_text(code)
            self.assertEqual(sorted(os.listdir(project)), ["app.py", "test_app.py"])
            ran = subprocess.run(
                [sys.executable, "-m", "unittest"],
                cwd=project,
                env={**os.environ, "PYTHONPATH": str(SDK), "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                text=True,
            )
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn("Ran 1 test", ran.stderr)

    def test_the_guides_code_runs(self):
        names = {"__name__": "guide"}
        found = blocks(ROOT / "docs" / "plugins-python.md")
        self.assertEqual(len(found), 12)
        for code in found:
            exec(compile(code, "plugins-python.md", "exec"), names)
            names.pop("Plugin", None)  # each stands for a module of its own
        report = FakeCluster(names["report"])
        report.configure({"suffix": "x"})
        report.turn()
        self.assertEqual(report.lines, ["INFO configured suffix=x"])
        key = ObjectRef("example.com/v1/Site", "default", "a")
        outcome = names["made_two"](key, {}, {}, datetime(2026, 1, 2, tzinfo=timezone.utc))
        self.assertEqual([stage.always for stage in outcome.stages], [False, False, True])
        self.check_what_the_guide_remembers_confirms_and_counts(names)

    def check_what_the_guide_remembers_confirms_and_counts(self, names):
        claim, pod = "v1/PersistentVolumeClaim", "v1/Pod"
        reads = [claim, pod]
        metadata = {"namespace": "default", "name": "a"}
        objects = {
            kind: {"apiVersion": "v1", "kind": kind.removeprefix("v1/"), "metadata": metadata}
            for kind in reads
        }
        objects[pod]["spec"] = {"volumes": [{"claim": "a"}]}
        index = Index("claim", pod, [".spec.volumes[*].claim"])
        tidying = made(
            names["tidy"],
            reconciles=claim,
            reads=reads,
            indexes=[index],
            writes=[Write(claim, ["delete"])],
        )
        cluster = FakeCluster(tidying, objects[claim])
        cluster.add_unseen(objects[pod])
        cluster.run_due()
        self.assertIsNotNone(cluster.object(claim, "default", "a"))
        cluster.delete(pod, "default", "a")
        cluster.run_due()
        self.assertIsNone(cluster.object(claim, "default", "a"))

        missing = FakeCluster(made(names["still_missing"], singleton=True))
        first = missing.turn().memo
        missing.at(datetime(2026, 1, 2, tzinfo=timezone.utc))
        self.assertEqual(missing.turn().memo, first)
        self.assertEqual(asking(names["count"], objects[pod], reads=[pod]), 1)


if __name__ == "__main__":
    unittest.main()
