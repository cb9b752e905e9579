"""Quantities are read, written, added and compared as Kubernetes does."""

import json
import random
import unittest
from pathlib import Path

from pilothouse import InvalidQuantity, Quantity

CASES = json.loads((Path(__file__).parents[2] / "cases/quantities.json").read_text())
"""What `resource.Quantity` of apimachinery 0.37 makes of texts."""


class Quantities(unittest.TestCase):
    def test_a_text_is_read_and_written_as_kubernetes_does(self):
        for case in CASES["parsed"]:
            with self.subTest(case["text"]):
                if "canonical" not in case:
                    with self.assertRaises(InvalidQuantity):
                        Quantity(case["text"])
                    continue
                quantity = Quantity(case["text"])
                self.assertEqual(str(quantity), case["canonical"])
                self.assertEqual(case.get("value", quantity.value), quantity.value)
                self.assertEqual(case.get("milli", quantity.milli_value), quantity.milli_value)

    def test_quantities_are_added_subtracted_and_compared_as_kubernetes_does(self):
        for case in CASES["pairs"]:
            with self.subTest(case):
                one, other = Quantity(case["a"]), Quantity(case["b"])
                self.assertEqual(str(one + other), case["sum"])
                self.assertEqual(str(one - other), case["difference"])
                self.assertEqual((one > other) - (one < other), case["order"])

    def test_a_text_that_is_no_quantity_is_refused_by_its_name(self):
        with self.assertRaises(InvalidQuantity) as raised:
            Quantity("1 Gi")
        wanted = '"1 Gi" is not a quantity; write 100m, 1.5Gi or 2e3'
        self.assertEqual(str(raised.exception), wanted)
        for text in ("1e30", "200000000000E", "1e999999", "1e99999999999", "１", "1\n"):
            with self.subTest(text), self.assertRaises(InvalidQuantity):
                Quantity(text)
        self.assertEqual(str(Quantity("170000000000E")), "170000000000E")
        self.assertEqual(Quantity("0e999999"), Quantity())
        self.assertEqual(str(Quantity("9e-999999")), "1e-9")

    def test_a_quantity_is_made_of_numbers(self):
        self.assertEqual(str(Quantity(1_500)), "1500")
        self.assertEqual(str(Quantity(0.1)), "100m")
        self.assertEqual(str(Quantity.milli(1_500)), "1500m")
        self.assertEqual(str(Quantity.bytes(1_000)), "1k")
        self.assertEqual(str(Quantity.bytes(3 << 20)), "3Mi")
        self.assertEqual(Quantity(Quantity("1Ki")), Quantity(1_024))
        self.assertEqual(repr(Quantity("1.5Gi")), 'Quantity("1536Mi")')
        self.assertEqual(len({Quantity("1"), Quantity("1000m")}), 1)
        self.assertFalse(Quantity())
        self.assertTrue(Quantity.milli(-1))

    def test_a_sum_takes_the_format_of_what_is_not_zero(self):
        self.assertEqual(str(sum([Quantity("1Ki"), Quantity("1Ki")])), "2Ki")
        self.assertEqual(str(sum(map(Quantity, ["1Ki", "1Ki"]), Quantity())), "2Ki")
        # Less than one has no binary format any more.
        self.assertEqual(str(Quantity("0.00048828125Ki") + Quantity("1023.5")), "1024")
        for wrong in (lambda: Quantity() + 1, lambda: Quantity() < 1, lambda: 1 + Quantity()):
            self.assertRaises(TypeError, wrong)

    def test_what_is_written_is_read_as_the_same(self):
        random.seed(7)
        for _ in range(2_000):
            digits = f"{random.randint(-(2**31), 2**31)}.{random.randint(0, 999):03}"
            suffix = random.choice(["n", "u", "m", "", "k", "M", "Ki", "Mi", "e3", "e-6"])
            one = Quantity(digits + suffix)
            other = Quantity(random.randint(-(2**40), 2**40))
            with self.subTest(one):
                self.assertEqual((Quantity(str(one)), str(Quantity(str(one)))), (one, str(one)))
                self.assertEqual(one + other - other, one)
                self.assertEqual(one - other, -(other - one))
                self.assertNotIn(".", str(one))


if __name__ == "__main__":
    unittest.main()
