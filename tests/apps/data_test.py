"""Training out of files: the same losses on any number of workers, and in `run.json` what it read."""

import json
import pathlib
import shutil
import unittest

import numpy

from kerf_command import KerfTest, read_safetensors, run, safetensors_header, write_safetensors

FILES = pathlib.Path(__file__).parent / "files"
CONVOLUTIONS = pathlib.Path(__file__).parent.parent / "partitioner" / "onnx" / "models" / "convolutions.onnx"
PAGE = pathlib.Path(__file__).parent.parent.parent / "docs" / "howto" / "bring-your-data.md"
BRIEFLY = ("--batch", 8, "--micro-batches", 2, "--lr", 0.05)


class DataOfFiles(KerfTest):
    def same_on_any_number(self, *flags):
        alone = self.train(*flags, *BRIEFLY, "--workers", 1, out="alone")
        together = self.train(*flags, *BRIEFLY, "--workers", 3, out="together")
        inproc = self.train(*flags, *BRIEFLY, "--workers", 2, "--transport", "inproc", out="inproc")
        for other in (together, inproc):
            self.assertEqual(other["losses"], alone["losses"], "bit for bit")
            self.assertEqual(other["evaluations"], alone["evaluations"])
            self.assertTrue(other["equal"])
        self.assertNotEqual(alone["losses"][0], alone["losses"][-1])
        return alone

    def test_arrays(self):
        report = self.same_on_any_number("mlp", "--sizes", "6-8-8-8-5", "--data", FILES / "stored.npz", "--epochs", 3)
        self.assertEqual(report["data"], f"npz:{FILES / 'stored.npz'}")
        self.assertEqual(report["steps"], 3 * 4)
        self.assertEqual(report["evaluations"][-1]["rows"], 10)
        # Rows in the file's order, and what was read is named again as it was.
        again = self.train("mlp", "--sizes", "6-8-8-8-5", "--data", report["data"], *BRIEFLY, "--epochs", 3, "--workers", 1)
        self.assertEqual(again["losses"], report["losses"])
        straight = self.train("mlp", "--sizes", "6-8-8-8-5", "--data", report["data"], *BRIEFLY, "--epochs", 3, "--no-shuffle")
        self.assertNotEqual(straight["losses"], report["losses"])

    def test_arrays_of_two_inputs_and_a_target(self):
        draws = numpy.random.default_rng(5)
        source, target = draws.integers(0, 9, (50, 4)), draws.integers(0, 9, (50, 3)).astype(numpy.int32)
        file = self.folder / "pairs.npz"
        numpy.savez(file, source=source, target=target, label=(target + source[:, :1]) % 9)
        report = self.same_on_any_number("seq2seq", "--sizes", "4-3-9-8-16-1", "--data", file, "--epochs", 3)
        self.assertEqual(report["evaluations"][-1]["labels_per_row"], 3)
        numpy.savez(file, source=source, target=target)
        self.assert_one_error(run("train", "seq2seq", "--sizes", "4-3-9-8-16-1", "--data", file), "it has no labels", "source, target")
        numpy.savez(file, source=source, label=target)
        self.assert_one_error(run("train", "seq2seq", "--sizes", "4-3-9-8-16-1", "--data", file), "target", "pairs.npz")

    def test_compressed_arrays(self):
        report = self.same_on_any_number("mlp", "--sizes", "6-8-8-8-5", "--data", f"npz:{FILES / 'deflated.npz'}", "--epochs", 2)
        self.assertGreater(report["workers"][0]["data_bytes"], 40 * 6 * 8)
        # zlib has taken all that there is compressed with the first 1 MiB, and holds the last bytes.
        file = self.folder / "zeros.npz"
        numpy.savez_compressed(file, x=numpy.zeros((16383, 64), numpy.uint8), y=numpy.zeros(16383, numpy.int64))
        report = self.train("mlp", "--sizes", "64-16-2", "--data", file, "--batch", 1024, "--epochs", 1, out="zeros")
        self.assertEqual(report["evaluations"][-1]["rows"], 1638)

    def test_pictures(self):
        folder = self.folder / "pictures"
        for i in range(6):
            for name, source in (("train/a", "waves.png"), ("train/b", "waves.jpg"), ("test/a", "grey.png"), ("test/b", "palette.png")):
                (folder / name).mkdir(parents=True, exist_ok=True)
                shutil.copy(FILES / source, folder / name / f"{i}{pathlib.Path(source).suffix}")
        for i in range(10):
            (folder / "train" / f"c{i}").mkdir()
        answer = run("train", "lenet5", "--data", f"images:{folder}", "--out", self.folder / "out")
        self.assert_one_error(answer, "it has 12 classes, but lenet5 gives 10 scores: a, b, c0, c1")
        for i in range(2, 4):
            (folder / "train" / f"c{i}").rmdir()
        report = self.same_on_any_number("lenet5", "--data", f"images:{folder}", "--epochs", 4)
        self.assertEqual(report["data"], f"images:1x28x28:{folder}")
        # The list of files, and what is read ahead when one asks: a row at least, all twelve at most.
        rows, listed = divmod(report["workers"][0]["data_bytes"], 28 * 28 * 4)
        self.assertIn(rows, range(1, 13))
        self.assertIn(listed, range(12 * 32, 28 * 28 * 4))
        (folder / "train" / "a" / "3.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
        answer = run("train", "lenet5", "--data", f"images:{folder}", *BRIEFLY, "--out", self.folder / "out")
        self.assert_one_error(answer, "a/3.png", "it is damaged")

    def test_the_manual_has_the_table_of_kinds(self):
        kinds = json.loads(run("data", "--json").stdout)["data"]
        rows = [f"| {kind['form']} | {kind['row']} | {kind['normalised']} | {kind['tests']} |" for kind in kinds]
        self.assertIn("\n".join(["| `--data` | a row is | normalised | for tests are |", "|---|---|---|---|", *rows, ""]), PAGE.read_text())
        shown = run("data").stdout
        for kind in kinds:
            self.assertIn(kind["form"].replace("`", ""), shown)

    def test_text(self):
        text = self.folder / "text"
        text.write_text("the cat sat on the mat and the dog sat on the cat\n" * 20)
        for kind, sizes in (("text", "8"), ("words", "8x256")):
            report = self.same_on_any_number("lstm-lm", "--sizes", "8-256-8-8", "--data", f"{kind}:{text}", "--epochs", 2)
            self.assertEqual(report["data"], f"{kind}:{sizes}:{text}")
            self.assertEqual(report["labels_per_row"], 8)
        self.assert_one_error(run("train", "lenet5", "--data", f"text:{text}"), "does not answer token by token")
        self.assert_one_error(run("train", CONVOLUTIONS, "--data", f"text:{text}"), "gets one by --loss")

    def evaluated(self, *flags, note=None):
        answer = run("eval", *flags, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        if note is None:
            self.assertNotIn("note", answer.stderr)
        else:
            self.assertIn(note, answer.stderr)
        return json.loads(answer.stdout)

    def test_words_keep_their_numbers_with_the_weights(self):
        text, other = self.folder / "text", self.folder / "other"
        text.write_text("the cat sat on the mat and the dog sat on the cat\n" * 40)
        other.write_text("mat mat mat mat " * 200 + "the cat sat on the mat and the dog sat on the cat\n" * 40)
        model = ("lstm-lm", "--sizes", "8-12-8-16")
        self.train(*model, "--data", f"words:{text}", "--batch", 8, "--micro-batches", 2, "--lr", 0.5, "--epochs", 30, "--workers", 2)
        weights = self.folder / "run" / "weights.safetensors"
        numbering = json.loads(safetensors_header(weights)[0]["__metadata__"]["numbering"])
        self.assertEqual((numbering["what"], numbering["names"][0]), ("words", "the"))
        mine = self.evaluated(*model, "--data", f"words:{text}", "--weights", weights)
        self.assertGreater(mine["accuracy"], 0.9)
        theirs = self.evaluated(*model, "--data", f"words:{other}", "--weights", weights, "--workers", 2)
        self.assertGreater(theirs["accuracy"], 0.9, "its commonest word is another")
        # Weights that say nothing of it.
        contents = {name: numpy.frombuffer(data, "<f4").reshape(shape) for name, (shape, data) in read_safetensors(weights).items()}
        write_safetensors(weights, contents)
        theirs = self.evaluated(*model, "--data", f"words:{other}", "--weights", weights,
                                note="does not say by which words its numbers were trained")
        self.assertLess(theirs["accuracy"], 0.9)

    def test_classes_keep_their_numbers_with_the_weights(self):
        folder = self.folder / "pictures"
        for i in range(10):
            (folder / f"c{i}").mkdir(parents=True)
            for j in range(10):
                shutil.copy(FILES / ("waves.png" if i % 2 else "grey.png"), folder / f"c{i}" / f"{j}.png")
        model = ("lenet5", "--data", f"images:{folder}")
        self.train(*model, *BRIEFLY, "--epochs", 1, "--workers", 1)
        weights = self.folder / "run" / "weights.safetensors"
        self.evaluated(*model, "--weights", weights)
        (folder / "c0").rename(folder / "z0")
        self.assert_one_error(run("eval", *model, "--weights", weights), "z0", "the weights were trained for: c0, c1")
        self.assert_one_error(run("train", *model, "--weights", weights, "--out", self.folder / "o"), "z0", "trained for: c0, c1")

    def test_numbers_that_are_not_finite_are_told_of(self):
        x, y = numpy.zeros((20, 6), numpy.float32), numpy.arange(20) % 5
        x[7, 3] = numpy.inf
        answer = run("train", "mlp", "--sizes", "6-8-5", "--data", self.save(x=x, y=y), "--batch", 18, "--steps", 3, "--workers", 1,
                     "--out", self.folder / "out")
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertIn("row 7 of", answer.stderr)
        self.assertIn("is not finite, so", answer.stderr)
        self.assertNotIn("--lr", answer.stderr)

    def test_workers_of_some_samples_read_no_others(self):
        halves = {"0": {"samples": "0-3"}, "1": {"samples": "4-7"}}
        for model, first, features in ((("mlp", "--sizes", "6-8-5"), "fc1", 6), (("lenet5",), "conv1", 784)):
            with self.subTest(model=model):
                x = numpy.random.default_rng(1).standard_normal((80, features)).astype(numpy.float32)
                shares = self.folder / "shares.json"
                shares.write_text(json.dumps({"kerf_shares": 1, "shares": {first: halves}}))
                report = self.train(*model, "--data", self.save(x=x, y=numpy.arange(80) % 5), "--batch", 16, "--micro-batches", 2,
                                    "--steps", 16, "--no-test", "--workers", 2, "--cut", "free", "--shares", shares)
                for worker in report["workers"]:
                    # Of the step and of the next; all of them would be twice as much.
                    self.assertGreater(worker["data_bytes"], 0)
                    self.assertLessEqual(worker["data_bytes"], 16 * features * 4)

    def test_axes_in_another_order_are_refused(self):
        x, y = numpy.zeros((20, 32, 32, 3), numpy.float32), numpy.arange(20) % 10
        network = ("resnet18", "--width", 0.125, "--image-size", 32, "--classes", 10)
        answer = run("train", *network, "--data", self.save(image=x, label=y), *BRIEFLY, "--out", self.folder / "out")
        self.assert_one_error(answer, "[N, 32, 32, 3]", "[N, 3, 32, 32]; give the axes in that order")

    def save(self, **arrays):
        path = self.folder / "arrays.npz"
        numpy.savez(path, **arrays)
        return path

    def test_tests_that_do_not_fit_are_told_before_training(self):
        x, y = numpy.zeros((30, 6), numpy.float32), numpy.arange(30) % 5
        mlp = ("mlp", "--sizes", "6-8-5")
        for tests, part in (((x[:10, :5], y[:10]), "5 features"), ((x[:10], y[:10] + 1), "6 classes")):
            data = self.save(x_train=x, y_train=y, x_test=tests[0], y_test=tests[1])
            answer = run("train", *mlp, "--data", data, *BRIEFLY, "--out", self.folder / "out")
            self.assert_one_error(answer, "arrays.npz", part)
            self.train(*mlp, "--data", data, *BRIEFLY, "--no-test", out="untested")

    def test_an_evaluation_needs_no_training_rows(self):
        x, y = numpy.random.default_rng(1).standard_normal((30, 6)).astype(numpy.float32), numpy.arange(30) % 5
        mlp = ("mlp", "--sizes", "6-8-5")
        report = self.train(*mlp, "--data", self.save(x_train=x, y_train=y, x_test=x, y_test=y), *BRIEFLY, "--steps", 0)
        self.assertEqual([each["epoch"] for each in report["evaluations"]], [0])
        weights = ("--weights", self.folder / "run" / "weights.safetensors", "--json")
        answer = run("eval", *mlp, "--data", self.save(x_test=x, y_test=y), *weights)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertAlmostEqual(json.loads(answer.stdout)["loss"], report["evaluations"][0]["loss"], places=5)

    def test_arrays_are_inputs_by_their_names(self):
        x, y = numpy.zeros((30, 6), numpy.float32), numpy.arange(30) % 5
        answer = run("train", "mlp", "--sizes", "6-8-5", "--data", self.save(x=x, data=x, y=y), *BRIEFLY, "--out", self.folder / "o")
        self.assert_one_error(answer, "both x and data could be its input")

    def test_what_is_not_there_is_named(self):
        for data, parts in ((self.folder / "no.npz", ["no.npz", "cannot be opened"]),
                            (f"images:{self.folder / 'none'}", ["none", "no such folder of pictures"]),
                            (f"idx:{self.folder}", ["train-images-idx3-ubyte.gz"]), (f"npy:{self.folder}", ["no arrays for training"]),
                            (f"npz:{FILES / 'waves.png'}", ["waves.png", "no zip archive"]),
                            (FILES / "stored.npz", ["stored.npz", "its rows have 6 features"])):
            with self.subTest(data=data):
                self.assert_one_error(run("train", "lenet5", "--data", data, "--out", self.folder / "out"), *parts)


if __name__ == "__main__":
    unittest.main()
