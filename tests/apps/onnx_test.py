"""ONNX files: planned, answered, trained and written again, on one worker as on several."""

import json
import os
import pathlib
import subprocess
import unittest

import numpy

from kerf_command import KERF, KerfTest, run, shared_data

MODELS = pathlib.Path(__file__).parent.parent / "partitioner" / "onnx" / "models"
CONVOLUTIONS = MODELS / "convolutions.onnx"
TRAINED = ("--loss", "cross-entropy", "--data", "synthetic:96x64x10", "--batch", 32, "--micro-batches", 4, "--steps", 6)


def torch_answers(x):
    """What convolutions.onnx says, by PyTorch."""
    import onnx
    import torch
    from onnx import numpy_helper
    from torch.nn import functional

    weights = {each.name: torch.from_numpy(numpy_helper.to_array(each).copy())
               for each in onnx.load(str(CONVOLUTIONS)).graph.initializer}
    c = functional.conv2d(torch.from_numpy(x), weights["conv.weight"], weights["conv.bias"], padding=1)
    b = functional.batch_norm(c, weights["bn.mean"], weights["bn.var"], weights["bn.weight"], weights["bn.bias"])
    p = functional.max_pool2d(torch.relu(b), 2, 2).flatten(1)
    return torch.softmax(functional.linear(p, weights["fc.weight"], weights["fc.bias"]), 1).numpy()


def sum_of(inputs, outputs, path, same=()):
    """A file whose outputs are each the sum of its inputs [N, 4]; the `same` are Identities of the first."""
    import onnx
    from onnx import TensorProto, helper

    def value(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4])

    nodes = [helper.make_node("Sum", inputs, [output]) for output in outputs]
    nodes += [helper.make_node("Identity", outputs[:1], [output]) for output in same]
    outputs = [*outputs, *same]
    graph = helper.make_graph(nodes, "sums", [value(name) for name in inputs], [value(name) for name in outputs])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), str(path))
    return path


def safetensors(metadata=None, **arrays):
    """A file of float32 tensors."""
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


class OnnxFiles(KerfTest):
    def rows(self, name, *shape):
        path = self.folder / name
        numpy.save(path, numpy.random.default_rng(3).standard_normal(shape).astype(numpy.float32))
        return path

    def answers(self, model, name, rows, *arguments, output="probabilities"):
        folder = self.folder / f"answers{len(list(self.folder.iterdir()))}"
        done = run("infer", model, "--input", f"{name}={rows}", "--output", folder, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([each.name for each in folder.iterdir()], [f"{output}.npy"])
        return numpy.load(folder / f"{output}.npy")

    def test_answers_are_those_of_pytorch(self):
        rows = self.rows("x.npy", 11, 1, 8, 8)
        alone = self.answers(CONVOLUTIONS, "image", rows, "--batch", 1)
        self.assertEqual(alone.shape, (11, 10))
        numpy.testing.assert_allclose(alone, torch_answers(numpy.load(rows)), rtol=1e-4, atol=1e-6)
        piped = self.answers(CONVOLUTIONS, "image", rows, "--batch", 4, "--workers", 3)
        self.assertTrue(numpy.array_equal(piped, alone), "bit for bit")
        divided = self.answers(CONVOLUTIONS, "image", rows, "--batch", 4, "--workers", 2, "--cut", "feature")
        numpy.testing.assert_allclose(divided, alone, rtol=1e-5, atol=1e-7)

    def test_a_batch_takes_no_longer_than_it_is_under_way(self):
        rows = self.rows("x.npy", 96, 1, 8, 8)
        for workers in (1, 2):
            done = run("infer", CONVOLUTIONS, "--input", f"image={rows}", "--output", self.folder / "o", "--batch", 1,
                       "--workers", workers, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            told = json.loads(done.stdout)
            self.assertEqual((told["rows"], told["batch"], told["workers"]), (96, 1, workers))
            self.assertEqual(told["outputs"], [str(self.folder / "o" / "probabilities.npy")])
            self.assertGreater(told["latency_seconds"], 0)
            if workers == 1:  # which has one batch at a time
                self.assertLess(told["latency_seconds"] * told["rows_per_second"], 1.5)
        self.assertEqual(os.listdir(self.folder / "o"), ["probabilities.npy"])

    def test_one_stage_takes_a_batch_whole(self):
        rows = self.rows("x.npy", 16, 1, 8, 8)
        common = ("infer", CONVOLUTIONS, "--input", f"image={rows}", "--output", self.folder / "o", "--json")
        for flags, expected in (((), 1), (("--workers", 2), 8), (("--micro-batches", 2), 2)):
            self.assertEqual(json.loads(run(*common, *flags).stdout)["micro_batches"], expected, flags)

    def test_names_are_those_that_kerf_plan_prints(self):
        """Of operators that are otherwise put together for answers, too, in steering and profiles."""
        rows = self.rows("x.npy", 11, 1, 8, 8)
        nodes = json.loads(run("plan", CONVOLUTIONS, "--json").stdout)["stages"][0]["nodes"]
        conv = next(node for node in nodes if "conv" in node.lower())
        alone = self.answers(CONVOLUTIONS, "image", rows)
        devices = self.folder / "devices.json"
        devices.write_text(json.dumps({"kerf_devices": 1, "workers": {"0": {"speed": 1}, "1": {"speed": 2}}}))
        trained = run("profile", CONVOLUTIONS, "--loss", "mse", "--rows", 4, "--steps", 2, "--out", self.folder / "p.json")
        self.assertEqual(trained.returncode, 0, trained.stderr)
        for flags in (("--workers", 2, "--apart", f"{conv},{nodes[-1]}"), ("--way", f"{conv}=batch", "--workers", 2),
                      ("--devices", devices), ("--profile", self.folder / "p.json", "--workers", 2)):
            with self.subTest(flags=flags):
                numpy.testing.assert_allclose(self.answers(CONVOLUTIONS, "image", rows, *flags), alone, rtol=1e-5, atol=1e-7)
        common = ("infer", CONVOLUTIONS, "--input", f"image={rows}", "--output", self.folder / "o", "--json")
        piped = json.loads(run(*common, "--devices", devices).stdout)
        self.assertEqual((piped["workers"], piped["micro_batches"]), (2, 8))
        self.assertEqual(piped["asked"]["devices"]["workers"]["1"]["speed"], 2)

    def test_answers_as_a_plan_says(self):
        rows = self.rows("x.npy", 11, 1, 8, 8)
        plan = self.folder / "plan.json"
        done = run("plan", CONVOLUTIONS, "--workers", 2, "--batch", 4, "--out", plan)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(numpy.array_equal(self.answers(CONVOLUTIONS, "image", rows, "--plan", plan),
                                          self.answers(CONVOLUTIONS, "image", rows, "--batch", 1)))

    def test_several_inputs_and_outputs_have_files_of_their_names(self):
        model = sum_of(["a", "b"], ["first/sum", "second"], self.folder / "sums.onnx")
        a, b = self.rows("a.npy", 9, 4), self.folder / "b.npy"
        numpy.save(b, numpy.arange(36, dtype=numpy.float32).reshape(9, 4))
        out = self.folder / "o"
        done = run("infer", model, "--input", f"a={a}", "--input", f"b={b}", "--output", out, "--workers", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        for output in ("first_sum", "second"):
            self.assertTrue(numpy.array_equal(numpy.load(out / f"{output}.npy"), numpy.load(a) + numpy.load(b)))
        refused = ((("--input", f"a={a}"), "nothing for b"),
                   (("--input", f"a={a}", "--input", f"b={b}", "--input", f"c={b}"), "has no input c; its inputs are a, b"),
                   (("--input", f"a={a}", "--input", f"a={b}"), "a is given twice"))
        for flags, part in refused:
            self.assert_one_error(run("infer", model, *flags, "--output", out), part)
        odd = os.fsdecode(bytes(out) + b"\xff.npy")
        numpy.save(odd, numpy.load(b))
        self.assert_one_error(run("infer", model, "--input", f"a={a}", "--input", f"b={odd}", "--output", out), "--input", "UTF-8")
        twice = sum_of(["a", "b"], ["one"], self.folder / "twice.onnx", same=["two", "three"])
        answers = self.folder / "twice"
        done = run("infer", twice, "--input", f"a={a}", "--input", f"b={b}", "--output", answers)
        self.assertEqual(done.returncode, 0, done.stderr)
        for output in ("one", "two", "three"):
            self.assertTrue(numpy.array_equal(numpy.load(answers / f"{output}.npy"), numpy.load(a) + numpy.load(b)))
        both = sum_of(["a", "b"], ["s/t", "s_t"], self.folder / "both.onnx")
        self.assert_one_error(run("infer", both, "--input", f"a={a}", "--input", f"b={b}", "--output", out),
                              "the outputs s/t and s_t would both be written to s_t.npy")
        self.assertEqual(sorted(os.listdir(out)), ["first_sum.npy", "second.npy"])

    def test_training_is_the_same_over_workers_and_goes_out_again(self):
        alone = self.train(CONVOLUTIONS, *TRAINED, "--workers", 1, out="alone")
        together = self.train(CONVOLUTIONS, *TRAINED, "--workers", 3, out="together")
        self.assertEqual(together["losses"], alone["losses"], "bit for bit")
        self.assertLess(alone["losses"][-1], alone["losses"][0])
        out = self.folder / "tuned.onnx"
        done = run("export", self.folder / "together", "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("an export gives s, the scores before it, instead of probabilities", done.stderr)
        rows = self.rows("x.npy", 5, 1, 8, 8)
        tuned = self.answers(out, "image", rows, output="s")
        before = self.answers(CONVOLUTIONS, "image", rows)
        odds = numpy.exp(tuned) / numpy.exp(tuned).sum(1, keepdims=True)
        self.assertGreater(abs(odds - before).max(), 1e-3, "it learnt something")

    def test_a_runs_folder_says_how_its_model_was_read(self):
        self.train(CONVOLUTIONS, *TRAINED[:4], "--steps", 1, "--no-test", "--workers", 1, out="run")
        folder, out = self.folder / "run", self.folder / "out.onnx"
        for flag, value in (("--head", 3), ("--freeze", "conv.*"), ("--train", "bn.*"), ("--sizes", "8-4"), ("--dim", "T=3"),
                            ("--loss", "cross-entropy"), ("--bn", "train"), ("--width", 1), ("--classes", 3), ("--image-size", 8)):
            self.assert_one_error(run("export", folder, flag, value, "--out", out), flag, "says how its model was read", "--weights")
        self.assertFalse(out.exists())
        self.assertEqual(run("export", CONVOLUTIONS, *TRAINED[:2], "--weights", folder / "weights.safetensors", "--out", out).returncode, 0)
        by_file = out.read_bytes()
        self.assertEqual(run("export", folder, "--out", out).returncode, 0)
        self.assertEqual(out.read_bytes(), by_file)

    def test_notes_are_told_with_a_plan_too(self):
        plan = self.folder / "plan.json"
        data = (*TRAINED[:4], "--batch", 32)
        notes = []
        for command in (("plan", CONVOLUTIONS, *data[:2], "--batch", 32, "--out", plan),
                        ("train", "--plan", plan, *data[2:4], "--steps", 1, "--no-test", "--out", self.folder / "run")):
            done = run(*command)
            self.assertEqual(done.returncode, 0, done.stderr)
            notes.append([line for line in done.stderr.splitlines() if line.startswith("kerf: note: ")])
        self.assertIn("joined with the loss", notes[0][0])
        self.assertEqual(notes[1], notes[0])

    def test_an_export_that_is_read_again_says_the_same(self):
        for model, name, output in ((CONVOLUTIONS, "image", "probabilities"), (MODELS / "shapes.onnx", "x", "scores")):
            rows = self.rows("x.npy", 7, *((1, 8, 8) if name == "image" else (6, 16)))
            out = self.folder / "out.onnx"
            self.assertEqual(run("export", model, "--out", out).returncode, 0)
            numpy.testing.assert_array_equal(self.answers(out, name, rows, output=output),
                                             self.answers(model, name, rows, output=output))

    def test_weights_may_lie_beside_an_export(self):
        import onnx

        rows = self.rows("x.npy", 3, 1, 8, 8)
        out = self.folder / "out.onnx"
        self.assertEqual(run("export", CONVOLUTIONS, "--out", out, "--external-data").returncode, 0)
        beside = [each.name for each in self.folder.glob("out.onnx.*")]
        self.assertRegex(" ".join(beside), r"^out\.onnx\.[0-9a-f]{8}\.data$")
        onnx.checker.check_model(str(out))
        outside = [each.name for each in onnx.load(str(out), load_external_data=False).graph.initializer if each.external_data]
        self.assertEqual(outside, ["fc.weight"])
        for name in ("fc.weight", "conv.weight"):
            of = lambda path: next(onnx.numpy_helper.to_array(w) for w in onnx.load(str(path)).graph.initializer if w.name == name)
            numpy.testing.assert_array_equal(of(out), of(CONVOLUTIONS))
        numpy.testing.assert_array_equal(self.answers(out, "image", rows), self.answers(CONVOLUTIONS, "image", rows))
        self.assertEqual(run("export", CONVOLUTIONS, "--out", out, "--external-data").returncode, 0)
        self.assertEqual([each.name for each in self.folder.glob("out.onnx.*")], beside, "the same weights, the same file")

    def test_a_new_head_and_frozen_layers(self):
        report = self.train(CONVOLUTIONS, "--loss", "cross-entropy", "--head", 3, "--freeze", "conv.*", "--data",
                            "synthetic:64x64x3", "--steps", 2, "--workers", 2, out="head")
        self.assertEqual(len(report["losses"]), 2)

    def test_light_models_plan_for_inference(self):
        light = shared_data("onnx")
        if light is None:
            self.skipTest("there is no shared/data/onnx above the sources, and KERF_DATA names none")
        found = sorted(light.glob("light_*.onnx"))  # topologies, without weights
        self.assertTrue(found, light)
        for model in found:
            done = run("plan", model, "--cut", "layer", "--workers", 3, "--batch", 1, "--objective", "forward-flops", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            json.loads(done.stdout)
        # Their weights are all one number, which is a weight as any other.
        out = self.folder / "out.onnx"
        done = run("export", light / "light_squeezenet.onnx", "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(out.stat().st_size, 4 * 1235496)

    def test_its_own_weights_are_measured(self):
        data = ("--loss", "cross-entropy", "--data", "synthetic:64x64x10", "--json")
        own = run("eval", CONVOLUTIONS, *data)
        self.assertEqual(own.returncode, 0, own.stderr)
        self.train(CONVOLUTIONS, *TRAINED[:2], "--data", "synthetic:64x64x10", "--steps", 1, "--lr", 1e-30, "--no-test", out="still")
        saved = run("eval", CONVOLUTIONS, "--weights", self.folder / "still" / "weights.safetensors", *data)
        self.assertEqual(json.loads(own.stdout)["loss"], json.loads(saved.stdout)["loss"])
        headless = run("eval", CONVOLUTIONS, "--head", 3, *data)  # notes before the error
        self.assertEqual(headless.returncode, 2)
        self.assertIn("fc.weight has no weights yet; give --weights", headless.stderr)
        self.assert_one_error(run("eval", "lenet5"), "has no weights yet", "--weights")

    def test_an_output_that_is_the_same_for_all_inputs_is_written(self):
        import onnx
        from onnx import TensorProto, helper

        path = self.folder / "same.ONNX"
        tensor = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        table = helper.make_tensor("table", TensorProto.FLOAT, [2, 3], range(6))
        nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["table"], ["t"])]
        graph = helper.make_graph(nodes, "same", [tensor("x", "N", 4)], [tensor("y", "N", 4), tensor("t", 2, 3)], [table])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))
        folder = self.folder / "o"
        done = run("infer", path, "--input", f"x={self.rows('x.npy', 5, 4)}", "--output", folder, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("output t is the same for all inputs", done.stderr)
        self.assertEqual(json.loads(done.stdout)["outputs"], [str(folder / "y.npy"), str(folder / "t.npy")])
        numpy.testing.assert_array_equal(numpy.load(folder / "t.npy"), -numpy.arange(6, dtype=numpy.float32).reshape(2, 3))

    def test_inputs_of_other_floating_types_are_read_as_float32(self):
        import onnx
        from onnx import TensorProto, helper

        numbers = (numpy.arange(24, dtype=numpy.float32).reshape(6, 4) - 12) / 8  # that all of the types have
        as_bfloat16 = (numbers.view(numpy.uint32) >> 16).astype(numpy.uint16).view("V2")
        given = {"FLOAT16": numbers.astype(numpy.float16), "BFLOAT16": as_bfloat16, "DOUBLE": numbers.astype(numpy.float64),
                 "FLOAT": numbers}
        for declared, named in (("FLOAT16", "float16"), ("BFLOAT16", "bfloat16"), ("DOUBLE", "float64"), ("FLOAT", "")):
            kind = getattr(TensorProto, declared)
            x, y = (helper.make_tensor_value_info(name, kind, ["N", 4]) for name in "xy")
            graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "negative", [x], [y])
            path = self.folder / f"{declared}.onnx"
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), str(path))
            for array in (given[declared], numbers):
                numpy.save(self.folder / "x.npy", array)
                done = run("infer", path, "--input", f"x={self.folder / 'x.npy'}", "--output", self.folder / "o", "--batch", 4)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(f"input x is {named} in the file" in done.stderr, named != "", done.stderr)
                numpy.testing.assert_array_equal(numpy.load(self.folder / "o" / "y.npy"), -numbers)
        numpy.save(self.folder / "x.npy", numbers.astype(numpy.int64))
        self.assert_one_error(run("infer", path, "--input", f"x={self.folder / 'x.npy'}", "--output", self.folder / "o"),
                              "--input: x is given as int64 [N, 4]", "has float32 [N, 4]", '.astype("float32")')

    def test_a_loss_and_labels_get_names_that_are_free(self):
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        weight = numpy_helper.from_array(numpy.eye(4, dtype=numpy.float32), "label_2")
        for name in ("label", "x"):
            nodes = [helper.make_node("MatMul", [name, "label_2"], ["h"], "loss"), helper.make_node("Relu", ["h"], ["y"], "loss.square")]
            value = [helper.make_tensor_value_info(each, TensorProto.FLOAT, ["N", 4]) for each in (name, "y")]
            graph = helper.make_graph(nodes, "clashes", value[:1], value[1:], [weight])
            path = self.folder / f"{name}.onnx"
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), str(path))
            for loss in ("cross-entropy", "mse"):
                done = run("plan", path, "--loss", loss, "--workers", 1)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.train(path, "--loss", "cross-entropy", "--data", "synthetic:32x4x4", "--batch", 8, "--steps", 2, out=f"{name}-run")
        rows = numpy.zeros((8, 4), dtype=numpy.float32)
        numpy.savez(self.folder / "rows.npz", label_train=rows, label_test=rows)
        self.assert_one_error(run("train", self.folder / "label.onnx", "--loss", "mse", "--data", self.folder / "rows.npz", "--steps", 1),
                              "it has no labels", "not as an input of the model")

    def test_files_are_known_by_their_suffix_in_capitals_too(self):
        path = self.folder / "MODEL.ONNX"
        path.write_bytes(CONVOLUTIONS.read_bytes())
        done = run("plan", path, "--workers", 1, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_external_data_lie_beside_the_path_that_is_given_or_where_links_lead(self):
        rows = self.rows("x.npy", 5, 6, 16)
        wanted = self.answers(MODELS / "external.onnx", "x", rows, output="scores")
        # As caches have it: all files in one folder, a link to each of a snapshot's in another.
        blobs, snapshot, elsewhere = (self.folder / name for name in ("blobs", "snapshot", "elsewhere"))
        for folder in (blobs, snapshot, elsewhere):
            folder.mkdir()
        (blobs / "1a").write_bytes((MODELS / "external.onnx").read_bytes())
        (blobs / "2b").write_bytes((MODELS / "external.bin").read_bytes())
        (snapshot / "model.onnx").symlink_to("../blobs/1a")
        (snapshot / "external.bin").symlink_to("../blobs/2b")
        self.assertTrue(numpy.array_equal(self.answers(snapshot / "model.onnx", "x", rows, output="scores"), wanted))
        # A link to a model that has its data beside it.
        (elsewhere / "model.onnx").symlink_to(MODELS / "external.onnx")
        self.assertTrue(numpy.array_equal(self.answers(elsewhere / "model.onnx", "x", rows, output="scores"), wanted))
        (snapshot / "external.bin").unlink()
        self.assert_one_error(run("plan", snapshot / "model.onnx"), "its external data are not there: external.bin")
        (elsewhere / "external.bin").write_bytes((MODELS / "external.bin").read_bytes())
        (snapshot / "external.bin").symlink_to(elsewhere / "external.bin")
        self.assert_one_error(run("plan", snapshot / "model.onnx"), "external data", "lie outside the model's folder")

    def test_many_external_files_are_not_all_open_at_once(self):
        import onnx
        from onnx import TensorProto, helper

        names = [f"w{i}" for i in range(300)]
        weights = []
        for i, name in enumerate(names):
            (self.folder / f"{name}.bin").write_bytes(numpy.full(4, i, dtype=numpy.float32).tobytes())
            tensor = TensorProto(name=name, dims=[4], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
            tensor.external_data.add(key="location", value=f"{name}.bin")
            weights.append(tensor)
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4]) for name in "xy")
        graph = helper.make_graph([helper.make_node("Sum", ["x", *names], ["y"])], "many", [x], [y], weights)
        path = self.folder / "many.onnx"
        path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]).SerializeToString())
        rows = self.rows("x.npy", 3, 4)
        limit = ("bash", "-c", 'ulimit -n 200; exec "$0" "$@"', KERF)
        done = subprocess.run([*limit, "infer", path, "--input", f"x={rows}", "--output", self.folder / "o"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        numpy.testing.assert_allclose(numpy.load(self.folder / "o" / "y.npy"), numpy.load(rows) + sum(range(300)), rtol=1e-5)

    def test_what_is_trained_is_listed(self):
        done = run("plan", CONVOLUTIONS, "--loss", "cross-entropy", "--freeze", "conv.*", "--workers", 1, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual(told["trained"], ["bn.weight", "bn.bias", "fc.weight", "fc.bias"])
        self.assertEqual(told["frozen"], ["conv.weight", "conv.bias", "bn.mean", "bn.var"])
        numbers = 8 + 8 + 1280 + 10
        self.assertIn(f"note: trained are 4 tensors of {numbers:,} numbers; frozen, 4 tensors of 96 numbers", done.stderr)

    def test_weights_that_constants_are_made_of_are_not_replaced_in_silence(self):
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        half, two = numpy.full(4, 0.5, dtype=numpy.float32), numpy.full(4, 2, dtype=numpy.float32)
        nodes = [helper.make_node("Mul", ["half", "two"], ["scale"]), helper.make_node("Mul", ["x", "scale"], ["y"])]
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4]) for name in "xy")
        graph = helper.make_graph(nodes, "scaled", [x], [y],
                                  [numpy_helper.from_array(half, "half"), numpy_helper.from_array(two, "two")])
        path = self.folder / "scaled.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), str(path))
        flags = ("infer", path, "--input", f"x={self.rows('x.npy', 3, 4)}", "--output", self.folder / "o", "--weights")
        weights = self.folder / "w.safetensors"
        weights.write_bytes(safetensors(half=half, two=two))
        done = run(*flags, weights)
        self.assertEqual((done.returncode, "is not read" in done.stderr), (0, False))
        weights.write_bytes(safetensors(half=half, two=two, token=two))
        done = run(*flags, weights)
        self.assertEqual(done.returncode, 0)
        self.assertIn("note: token of", done.stderr)
        weights.write_bytes(safetensors(half=two, two=two))
        self.assert_one_error(run(*flags, weights), "w.safetensors: its half is not that of", "scaled.onnx", "export the model")

    def test_one_tensor_in_several_places_is_not_several_in_silence(self):
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        one, other = numpy.eye(4, dtype=numpy.float32), numpy.full((4, 4), 2, dtype=numpy.float32)
        nodes = [helper.make_node("MatMul", ["x", "a.weight"], ["h"]), helper.make_node("MatMul", ["h", "a.weight"], ["y"])]
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4]) for name in "xy")
        graph = helper.make_graph(nodes, "shared", [x], [y], [numpy_helper.from_array(one, "a.weight")])
        path = self.folder / "shared.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), str(path))
        rows = self.rows("x.npy", 3, 4)
        flags = ("infer", path, "--input", f"x={rows}", "--output", self.folder / "o", "--weights")
        weights = self.folder / "w.safetensors"
        weights.write_bytes(safetensors(**{"a.weight": other, "b.weight": other}))  # as where the two are tied
        done = run(*flags, weights)
        self.assertEqual(done.returncode, 0, done.stderr)
        numpy.testing.assert_allclose(numpy.load(self.folder / "o" / "y.npy"), numpy.load(rows) @ other @ other, rtol=1e-5,
                                      atol=1e-5)
        weights.write_bytes(safetensors(**{"a.weight": other, "b.weight": one}))
        self.assert_one_error(run(*flags, weights), "w.safetensors: a.weight and b.weight differ there",
                              "one a.weight in several places", "export the model")
        norm = numpy.ones(4, dtype=numpy.float32)
        weights.write_bytes(safetensors(**{"a.weight": other, "norm.running_var": norm}))
        self.assert_one_error(run(*flags, weights), "its batch normalisation norm is nothing that", "folded")
        # A run of another model is no run of this one.
        weights.write_bytes(safetensors({"fingerprint": "0123"}, **{"a.weight": other, "norm.running_var": norm}))
        self.assert_one_error(run(*flags, weights), "its batch normalisation norm is nothing that", "folded")
        self.assert_one_error(run("export", path, "--weights", weights, "--out", self.folder / "e.onnx"),
                              "its batch normalisation norm is nothing that", "folded")
        self.assertFalse((self.folder / "e.onnx").exists())

    def test_what_is_wrong_is_named(self):
        rows = self.rows("x.npy", 2, 1, 8, 8)
        self.assert_one_error(run("plan", "missing.onnx"), "missing.onnx", "no such file")
        self.assert_one_error(run("train", CONVOLUTIONS, "--data", "synthetic:64x64x10"), "no loss to train with")
        self.assert_one_error(run("infer", CONVOLUTIONS, "--input", f"picture={rows}", "--output", self.folder / "o"),
                              "has no input picture; its inputs are image")
        self.assert_one_error(run("infer", CONVOLUTIONS, "--input", rows, "--output", self.folder / "o"), "image=x.npy")
        last = self.rows("last.npy", 2, 8, 8, 1)
        self.assert_one_error(run("infer", CONVOLUTIONS, "--input", f"image={last}", "--output", self.folder / "o"),
                              "--input", "image is given as float32 [N, 8, 8, 1]", "has float32 [N, 1, 8, 8]", "axes")
        self.assert_one_error(run("plan", CONVOLUTIONS, "--freeze", "\udcff"), "--freeze", "no UTF-8")
        self.assert_one_error(run("plan", "lenet5", "--freeze", "conv1.*"), "--freeze", "ONNX files only")
        broken = self.folder / "broken.onnx"
        broken.write_bytes(CONVOLUTIONS.read_bytes()[:3000])
        self.assert_one_error(run("plan", broken), "broken.onnx: byte", "cut short")


if __name__ == "__main__":
    unittest.main()
