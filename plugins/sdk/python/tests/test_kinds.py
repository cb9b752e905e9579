"""Manifests of several kinds, and of kinds that may be missing."""

import unittest

from pilothouse import Outcome, Read, Selection
from pilothouse.testing import FakeCluster
from things import CONFIG_MAP, POD, TEAM, made


def done(_request, _host):
    return Outcome()


class Kinds(unittest.TestCase):
    def test_a_manifest_says_which_kinds_are_reconciled_and_which_are_optional(self):
        plugin = made(
            done,
            reconciles=[Selection(POD), Selection(TEAM, optional=True)],
            reads=[Read(POD), Read(TEAM, optional=True)],
        )
        document = plugin.manifest.to_document()
        kinds = [{"kind": POD}, {"kind": TEAM, "optional": True}]
        self.assertEqual((document["reconciles"], document["reads"]), (kinds, kinds))

    def test_a_read_of_what_is_selected_is_narrowed_as_the_selection_is(self):
        narrow = {
            "labels": "a=b,!c",
            "field_selector": "type=Opaque",
            "namespaces": ["default"],
            "optional": True,
        }
        selection = Selection("v1/Secret", **narrow)
        self.assertEqual(selection.read([".data"]), Read("v1/Secret", [".data"], **narrow))
        plugin = made(done, reconciles=selection, reads=[selection.read()])
        document = plugin.manifest.to_document()
        self.assertEqual(document["reads"], document["reconciles"])

    def test_the_fake_cluster_says_that_it_runs_the_keys_of_one_kind(self):
        kinds = [POD, CONFIG_MAP]
        plugin = made(done, reconciles=[Selection(kind) for kind in kinds], reads=kinds)
        with self.assertRaisesRegex(ValueError, "the keys of one kind"):
            FakeCluster(plugin)


if __name__ == "__main__":
    unittest.main()
