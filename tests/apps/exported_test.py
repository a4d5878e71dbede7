"""Brings models as docs/howto/bring-your-model.md says: what PyTorch exported (exported/make_exported.py) is planned, answered,
fine-tuned over three workers and taken back, and says what PyTorch says of it."""

import json
import pathlib
import shlex
import shutil
import unittest

import numpy

from kerf_command import KerfTest, run, safetensors_header

HERE = pathlib.Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "howto" / "bring-your-model.md"
EXPORTERS = ("dynamo", "torchscript")
MODELS = [(name, exporter) for name in ("resnet18", "transformer") for exporter in EXPORTERS]
INPUTS = {"resnet18": "image", "transformer": "tokens"}
# As make_exported.py does it.
FINE_TUNING = ("--loss", "cross-entropy", "--no-shuffle", "--steps", 3, "--batch", 8, "--optimizer", "sgd", "--lr", 0.05,
               "--momentum", 0.9)


def commands_of(page):
    """The kerf commands that a page shows."""
    return [shlex.split(line) for line in page.read_text().splitlines() if line.startswith("    kerf ")]


def unknown_layers(path, to):
    """The same file, of which nobody can tell what PyTorch called the weights of its layers."""
    import onnx

    model = onnx.load(str(path))
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        model.graph.node.append(node)
        if node.op_type != "MatMul":
            continue
        product = f"product{len(model.graph.node)}"
        model.graph.node[-1].name = ""
        model.graph.node[-1].output[0] = product
        model.graph.node.append(onnx.helper.make_node("Identity", [product], node.output))
    onnx.save(model, str(to))


class ExportedModels(KerfTest):
    exported = HERE / "exported"

    def bring(self, name, exporter):
        """A model and its rows, under the names that the page has for them."""
        shutil.copy(self.exported / f"{name}.{exporter}.onnx", self.folder / f"{name}.onnx")
        arrays = self.exported / f"{name}.npz"
        shutil.copy(arrays, self.folder / ("photos.npz" if name == "resnet18" else "texts.npz"))
        rows = numpy.load(arrays)
        numpy.save(self.folder / "x.npy", rows[f"{INPUTS[name]}_test"])
        return rows

    def kerf(self, *arguments):
        done = run(*arguments, cwd=self.folder)
        self.assertEqual(done.returncode, 0, f"kerf {' '.join(map(str, arguments))}\n{done.stderr}")
        return done

    def answers(self, model, name, *arguments):
        self.kerf("infer", model, "--input", f"{INPUTS[name]}=x.npy", "--output", "answers", *arguments)
        return numpy.load(self.folder / "answers" / "scores.npy")

    def assert_same(self, got, wanted, what):
        numpy.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * abs(wanted).max(), err_msg=what)

    def check_elsewhere(self, model, name, wanted):
        """What others say of an exported file: nobody here, see peer_test.py."""

    def test_the_page_is_right(self):
        # Those with "..." have weights or data that one has elsewhere.
        commands = [words for words in commands_of(PAGE) if "..." not in words]
        self.assertEqual({words[1] for words in commands}, {"plan", "infer", "train", "eval", "export"})
        for exporter in EXPORTERS:
            with self.subTest(exporter=exporter):
                self.bring("transformer", exporter)
                rows = self.bring("resnet18", exporter)
                for words in commands:
                    self.kerf(*words[1:])
                self.assert_same(numpy.load(self.folder / "answers" / "scores.npy"), rows["answers"], "PyTorch's answers")
                tuned = numpy.load(self.folder / "tuned-answers" / "scores.npy")
                self.assertEqual(tuned.shape, (len(rows["image_test"]), 10))
                self.check_elsewhere("tuned.onnx", "resnet18", tuned)
                shutil.rmtree(self.folder)
                self.folder.mkdir()

    def test_answers_are_those_of_pytorch(self):
        for name, exporter in MODELS:
            with self.subTest(model=name, exporter=exporter):
                rows = self.bring(name, exporter)
                alone = self.answers(f"{name}.onnx", name)
                self.assert_same(alone, rows["answers"], "PyTorch's answers")
                by_two = self.answers(f"{name}.onnx", name, "--batch", 2, "--micro-batches", 2)
                together = self.answers(f"{name}.onnx", name, "--batch", 2, "--micro-batches", 2, "--workers", 3)
                self.assertTrue(numpy.array_equal(together, by_two), "bit for bit")

    def test_fine_tuning_over_three_workers_is_that_of_pytorch(self):
        for name, exporter in MODELS:
            with self.subTest(model=name, exporter=exporter):
                rows = self.bring(name, exporter)
                data = "photos.npz" if name == "resnet18" else "texts.npz"
                report = self.train(self.folder / f"{name}.onnx", *FINE_TUNING, "--data", self.folder / data,
                                    "--micro-batches", 4, "--workers", 3, out=f"{exporter}-run")
                self.assert_same(numpy.array(report["losses"]), rows[f"{exporter}_losses"], "PyTorch's losses")
                self.kerf("export", f"{exporter}-run", "--out", "tuned.onnx")
                tuned = self.answers("tuned.onnx", name)
                self.assert_same(tuned, rows[f"{exporter}_tuned"], "PyTorch's answers after the same steps")
                self.assertGreater(abs(tuned - rows["answers"]).max(), 0.05, "it learnt something")
                self.check_elsewhere("tuned.onnx", name, tuned)

    def test_weights_are_found_under_the_names_of_the_file(self):
        self.bring("transformer", "torchscript")
        data = ("--loss", "cross-entropy", "--data", "texts.npz")
        self.kerf("train", "transformer.onnx", *data, "--steps", 1, "--out", "run")
        header, _ = safetensors_header(self.folder / "run" / "weights.safetensors")
        names = json.loads(header["__metadata__"]["names"])
        renamed = {name for name in names if name.startswith("onnx::MatMul_")}
        self.assertTrue(renamed)
        self.assertLessEqual({tensor for name in names for tensor in names[name]["tensors"]}, header.keys())
        self.assertEqual(names[min(renamed)]["axes"], [1, 0])
        unknown_layers(self.folder / "transformer.onnx", self.folder / "anonymous.onnx")
        evaluations = [self.kerf("eval", model, *data, "--weights", "run/weights.safetensors", "--json")
                       for model in ("transformer.onnx", "anonymous.onnx")]
        self.assertNotIn("in files of weights", evaluations[1].stderr)
        losses = [json.loads(each.stdout)["loss"] for each in evaluations]
        self.assertAlmostEqual(losses[1], losses[0], places=5)


class FixedBatches(KerfTest):
    """Files that were exported for so many samples and no other (exported/make_fixed_batch.py)."""

    exported = HERE / "exported" / "fixed_batch"

    def test_any_number_of_rows_is_answered_and_trained_with(self):
        files = sorted(self.exported.glob("*.onnx"))
        self.assertEqual(len(files), 16)
        for file in files:
            with self.subTest(file=file.name):
                arrays = numpy.load(self.exported / f"{file.name.split('.')[0]}.npz")
                x, answers, labels = (arrays[key] for key in ("x", "answers", "labels"))
                numpy.save(self.folder / "x.npy", x)
                numpy.savez(self.folder / "rows.npz", x_train=x, label_train=labels, x_test=x, label_test=labels)
                for flags in (("--batch", 1), ("--batch", 3, "--workers", 2)):
                    done = run("infer", file, "--input", f"x={self.folder / 'x.npy'}", "--output", self.folder / "answers", *flags)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    got = numpy.load(self.folder / "answers" / "scores.npy")
                    numpy.testing.assert_allclose(got, answers, rtol=1e-4, atol=1e-4 * abs(answers).max())
                report = self.train(file, "--loss", "cross-entropy", "--data", self.folder / "rows.npz", "--batch", 5,
                                    "--micro-batches", 2, "--workers", 2, "--steps", 2, "--no-shuffle", "--lr", 0.1,
                                    out=file.name)
                flat = answers.reshape(-1, answers.shape[-1])
                chosen = flat[numpy.arange(len(flat)), labels.flatten()]
                loss = (numpy.log(numpy.exp(flat).sum(1)) - chosen).mean()
                self.assertAlmostEqual(report["losses"][0], loss, places=4)
                self.assertLess(report["losses"][1], report["losses"][0])


class StateDicts(KerfTest):
    """Weights that PyTorch wrote, of models that were exported with others (exported/make_state_dict.py)."""

    exported = HERE / "exported" / "state_dict"

    def bring(self, name):
        """The answers of the others to x.npy, and the names and shapes of their weights."""
        arrays = numpy.load(self.exported / f"{name}.other.npz")
        x, answers, labels = (arrays[key] for key in ("x", "answers", "labels"))
        numpy.save(self.folder / "x.npy", x)
        numpy.savez(self.folder / "rows.npz", x_train=x, label_train=labels, x_test=x, label_test=labels)
        return answers, self.shapes(self.exported / f"{name}.other.safetensors")

    @staticmethod
    def shapes(file):
        header, _ = safetensors_header(file)
        header.pop("__metadata__", None)
        return {name: header[name]["shape"] for name in header}

    def infer(self, model, weights, *flags):
        return run("infer", model, "--input", f"x={self.folder / 'x.npy'}", "--output", self.folder / "answers", "--weights",
                   weights, *flags)

    def test_every_weight_has_the_name_that_pytorch_has_for_it(self):
        # Of what was equal the older exporter does not say what it was.
        for name, exporters in (("encoder", EXPORTERS), ("stack", EXPORTERS), ("affines", ["dynamo"])):
            answers, wanted = self.bring(name)
            for exporter in exporters:
                with self.subTest(model=name, exporter=exporter):
                    model = self.exported / f"{name}.{exporter}.onnx"
                    done = self.infer(model, self.exported / f"{name}.other.safetensors")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertNotIn("is not read", done.stderr)
                    got = numpy.load(self.folder / "answers" / "scores.npy")
                    numpy.testing.assert_allclose(got, answers, rtol=1e-4, atol=1e-4 * abs(answers).max())
                    out = f"{name}-{exporter}"
                    self.train(model, "--loss", "cross-entropy", "--data", self.folder / "rows.npz", "--steps", 1, "--batch", 5,
                               "--workers", 1, "--no-test", out=out)
                    self.assertEqual(self.shapes(self.folder / out / "weights.safetensors"), wanted)

    def test_one_number_is_a_weight_too(self):
        answers, wanted = self.bring("single")
        x = numpy.load(self.folder / "x.npy")
        rows = self.folder / "numbers.npz"
        numpy.savez(rows, x_train=x, target_train=answers + 1, x_test=x, target_test=answers + 1)
        for exporter in EXPORTERS:
            model = self.exported / f"single.{exporter}.onnx"
            for given, told in (("other", ""), ("half", "8 tensors of")):
                with self.subTest(exporter=exporter, weights=given):
                    done = self.infer(model, self.exported / f"single.{given}.safetensors", "--workers", 2)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertNotIn("is not read", done.stderr)
                    self.assertIn(told, done.stderr)
                    got = numpy.load(self.folder / "answers" / "scores.npy")
                    numpy.testing.assert_allclose(got, answers, rtol=1e-4, atol=1e-4 * abs(answers).max())
            flags = ("--loss", "mse", "--data", rows)
            plan = json.loads(run("plan", model, "--loss", "mse", "--workers", 1, "--json").stdout)
            self.assertEqual((len(plan["trained"]), plan["frozen"]), (len(wanted), []))
            report = self.train(model, *flags, "--weights", self.exported / "single.half.safetensors", "--steps", 5, "--batch", 5,
                                "--lr", 0.05, "--workers", 2, "--no-test", out=f"single-{exporter}")
            self.assertAlmostEqual(report["losses"][0], 1, places=4)
            self.assertLess(report["losses"][-1], 0.5)
            self.assertEqual(self.shapes(self.folder / f"single-{exporter}" / "weights.safetensors"), wanted)

    def test_statistics_of_a_model_that_was_not_trained_are_those_that_are_given(self):
        answers, wanted = self.bring("norms")
        model = self.exported / "norms.preserve.onnx"
        done = self.infer(model, self.exported / "norms.other.safetensors", "--workers", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        got = numpy.load(self.folder / "answers" / "scores.npy")
        numpy.testing.assert_allclose(got, answers, rtol=1e-4, atol=1e-4 * abs(answers).max())
        self.train(model, "--loss", "cross-entropy", "--data", self.folder / "rows.npz", "--steps", 1, "--batch", 5,
                   "--workers", 2, "--no-test", out="run")
        saved = self.shapes(self.folder / "run" / "weights.safetensors")
        self.assertEqual(saved, {name: wanted[name] for name in wanted if "num_batches" not in name})

    def test_numbers_that_are_no_weights_may_be_lacked(self):
        answers, _ = self.bring("positions")
        weights, rows = self.exported / "positions.other.safetensors", self.folder / "rows.npz"
        for exporter in EXPORTERS:
            with self.subTest(exporter=exporter):
                model = self.exported / f"positions.{exporter}.onnx"
                done = self.infer(model, weights, "--workers", 3)
                self.assertEqual(done.returncode, 0, done.stderr)
                got = numpy.load(self.folder / "answers" / "scores.npy")
                numpy.testing.assert_allclose(got, answers, rtol=1e-4, atol=1e-4 * abs(answers).max())
                flags = ("--loss", "cross-entropy", "--data", rows)
                told = json.loads(run("plan", model, "--loss", "cross-entropy", "--workers", 1, "--json").stdout)
                self.assertEqual(len(told["trained"]), 4, "weights and biases")
                report = self.train(model, *flags, "--weights", weights, "--steps", 2, "--batch", 5, "--no-shuffle",
                                    "--lr", 0.1, "--workers", 3, out=exporter)
                again = run("eval", model, *flags, "--weights", self.folder / exporter / "weights.safetensors", "--json")
                self.assertLess(json.loads(again.stdout)["loss"], report["losses"][0])

    def test_what_pytorch_trains_is_trained(self):
        plans = {exporter: json.loads(run("plan", self.exported / f"stack.{exporter}.onnx", "--loss", "cross-entropy",
                                          "--workers", 1, "--json").stdout) for exporter in EXPORTERS}
        for name in ("token", "positions", "scale"):
            for exporter in EXPORTERS:
                self.assertIn(name, plans[exporter]["trained"], exporter)
        self.assertEqual(plans["dynamo"]["frozen"], ["shift"], "the older exporter does not say that it is a buffer")

    def test_a_normalisation_in_a_convolution_is_not_left_out_in_silence(self):
        self.bring("folded")
        model, given = self.exported / "folded.dynamo.onnx", self.exported / "folded.other.safetensors"
        self.assert_one_error(self.infer(model, given), "folded.other.safetensors: its conv.", "put together with others",
                              "export the model with these weights")
        self.train(model, "--loss", "cross-entropy", "--data", self.folder / "rows.npz", "--steps", 1, "--batch", 5,
                   "--workers", 1, "--no-test", out="run")
        done = self.infer(model, self.folder / "run" / "weights.safetensors")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
