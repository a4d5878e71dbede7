"""docs/schedules.md shows what `kerf schedule` prints: every "$ kerf schedule ..." of it is run, and the rows that
stand below it are compared."""

import pathlib
import re
import unittest

from kerf_command import KerfTest, run

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "schedules.md"


def shown():
    """(arguments, rows) of each command that has rows below it."""
    lines = PAGE.read_text().splitlines()
    for i, line in enumerate(lines):
        if not line.startswith("    $ kerf schedule "):
            continue
        rows = []
        for row in lines[i + 1:]:
            if not row.startswith("    worker "):
                break
            rows.append(row[4:])
        yield line.split("kerf schedule ", 1)[1].split(), rows


class SchedulesPage(KerfTest):
    def test_every_picture_is_what_the_command_prints(self):
        pictures = list(shown())
        self.assertGreaterEqual(len(pictures), 12)
        for arguments, rows in pictures:
            with self.subTest(arguments=arguments):
                answer = run("schedule", *arguments)
                self.assertEqual(answer.returncode, 0, answer.stderr)
                printed = [line for line in answer.stdout.splitlines() if line.startswith("worker ")]
                self.assertEqual(rows, printed)

    def test_every_schedule_is_explained(self):
        text = PAGE.read_text()
        names = re.findall(r"^  NAME TEXT +(.*), a file, or search", run("schedule", "--help").stdout, re.M)
        self.assertEqual(len(names), 1)
        for name in names[0].split(", "):
            with self.subTest(name=name):
                self.assertIn(f"**{name}**", text)


if __name__ == "__main__":
    unittest.main()
