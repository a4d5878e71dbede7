"""What tests of checkpoints share: a small training, its weights, and the record of whoever goes on."""

import json

from kerf_command import KerfTest, run, wait_until, write_images

RUN = {"--sizes": "784-48-24-10", "--batch": 32, "--epochs": 6, "--optimizer": "adam", "--lr-schedule": "cosine", "--clip-norm": 2}


class CheckpointTest(KerfTest):
    def setUp(self):
        super().setUp()
        (self.folder / "images").mkdir()
        write_images(self.folder / "images", 320)
        self.data = f"idx:{self.folder / 'images'}"
        self.run_of = self.run_with()

    def run_with(self, *changed):
        """The run's flags, some with another value."""
        flags = {**RUN, "--data": self.data, **dict(zip(changed[::2], changed[1::2], strict=True))}
        return ("mlp", *(each for pair in flags.items() for each in pair))

    def weights(self, out):
        return (self.folder / out / "weights.safetensors").read_bytes()

    def checkpoints(self, out):
        answer = run("checkpoint", self.folder / out, "--json")
        return json.loads(answer.stdout)["checkpoints"] if answer.returncode == 0 else []

    def interrupted(self, out, *more, end):
        """A run that `end` ends once it has a checkpoint."""
        process = self.start("train", *more, "--out", self.folder / out)
        folder = self.folder / out / "checkpoints"
        self.assertTrue(wait_until(lambda: [*folder.glob("checkpoint-*/manifest.json")], 60))
        end(process)
        process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0, "it was over before")

    def expect_same(self, record, whole, out):
        for what in ("losses", "gradient_norms", "learning_rates", "evaluations", "skipped"):
            self.assertEqual(record[what], whole[what], what)
        self.assertEqual(self.weights(out), self.weights("whole"))
