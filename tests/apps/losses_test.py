"""Losses by name: each is what PyTorch's is, step by step, on one worker as on several."""

import pathlib
import sys
import unittest

from kerf_command import KerfTest, run

try:
    import numpy as np
    import onnx
    import torch
    from onnx import numpy_helper
    from torch.nn import functional
except ImportError as missing:
    print(f"skipped: {missing} (apt-get install python3-onnx python3-torch)")
    sys.exit(77)

MODEL = pathlib.Path(__file__).parent.parent / "partitioner" / "onnx" / "models" / "shapes.onnx"
ROWS, BATCH, STEPS, LR = 40, 12, 5, 0.05
LOSSES = {
    "mse": functional.mse_loss,
    "l1": functional.l1_loss,
    "huber": functional.huber_loss,
    "bce-with-logits": functional.binary_cross_entropy_with_logits,
}


def torch_losses(loss, x, y):
    weights = {each.name: torch.from_numpy(numpy_helper.to_array(each).copy()) for each in onnx.load(str(MODEL)).graph.initializer}
    trained = [weights[name].requires_grad_() for name in ("proj.weight", "proj.bias", "head.weight")]
    losses = []
    for step in range(STEPS):
        # The last batch of an epoch has the rows that are left.
        first = step % -(-ROWS // BATCH) * BATCH
        rows = slice(first, min(ROWS, first + BATCH))
        scores = (x[rows] @ trained[0] + trained[1]).flatten(1) @ trained[2].T
        value = loss(scores, y[rows])
        losses.append(value.item())
        gradients = torch.autograd.grad(value, trained)
        with torch.no_grad():
            for weight, gradient in zip(trained, gradients):
                weight -= LR * gradient
    return losses


class Losses(KerfTest):
    def data(self, **arrays):
        path = self.folder / "rows.npz"
        np.savez(path, **arrays)
        return path

    def rows(self, classes):
        random = np.random.default_rng(5)
        x = random.standard_normal((ROWS, 6, 16)).astype(np.float32)
        y = random.uniform(0, 1, (ROWS, classes)).astype(np.float32) * (1 if classes == 10 else 3)
        return x, y

    def test_each_is_that_of_pytorch(self):
        x, y = self.rows(10)
        data = self.data(x_train=x, y_train=y, x_test=x[:7], y_test=y[:7])
        common = ("--data", data, "--batch", BATCH, "--steps", STEPS, "--lr", LR, "--momentum", 0, "--no-shuffle")
        for name, loss in LOSSES.items():
            with self.subTest(name):
                alone = self.train(MODEL, "--loss", name, *common, out=f"alone-{name}")
                wanted = torch_losses(loss, torch.from_numpy(x), torch.from_numpy(y))
                np.testing.assert_allclose(alone["losses"], wanted, rtol=2e-6)
                self.assertIsNone(alone["accuracy"])
                cut = self.train(MODEL, "--loss", name, *common, "--workers", 2, "--micro-batches", 3, out=f"cut-{name}")
                np.testing.assert_allclose(cut["losses"], wanted, rtol=2e-6)
                spread = self.train(MODEL, "--loss", name, *common, "--workers", 2, "--cut", "feature", out=f"spread-{name}")
                np.testing.assert_allclose(spread["losses"], wanted, rtol=2e-6)

    def test_a_sigmoid_is_joined_with_the_loss_that_has_it(self):
        model = onnx.load(str(MODEL))
        model.graph.node.append(onnx.helper.make_node("Sigmoid", ["scores"], ["odds"], "sigmoid"))
        model.graph.output[0].name = "odds"
        ending = self.folder / "ending.onnx"
        onnx.save(model, str(ending))
        x, y = self.rows(10)
        data = self.data(x=x, target=y)
        common = ("--data", data, "--batch", 12, "--steps", 3, "--no-shuffle", "--no-test")
        plain = self.train(MODEL, "--loss", "bce-with-logits", *common, out="plain")
        joined = self.train(ending, "--loss", "bce-with-logits", *common, out="joined")
        self.assertEqual(joined["losses"], plain["losses"])
        apart = self.train(ending, "--loss", "mse", *common, out="apart")
        self.assertNotEqual(apart["losses"], plain["losses"])

    def test_a_built_in_model_learns_numbers(self):
        x, y = self.rows(3)
        data = self.data(x=x.reshape(ROWS, 96), y=y)
        report = self.train("mlp", "--sizes", "96-24-3", "--loss", "mse", "--data", data, "--batch", 8, "--epochs", 25,
                            "--optimizer", "adam", "--lr", 0.01, "--workers", 2, out="numbers")
        self.assertLess(report["losses"][-1], 0.01 * report["losses"][0])
        weights = self.folder / "numbers" / "weights.safetensors"
        done = run("eval", "mlp", "--sizes", "96-24-3", "--loss", "mse", "--data", data, "--weights", weights)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^test loss [0-9.e-]+ of 4 rows$")
        out = self.folder / "numbers.onnx"
        done = run("export", self.folder / "numbers", "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([each.name for each in onnx.load(str(out)).graph.output], ["scores"])
        self.train("mlp", "--sizes", "96-24-3", "--loss", "huber", "--data", "synthetic", "--steps", 2, out="drawn")

    def test_what_is_wrong_is_named(self):
        x, y = self.rows(10)
        x = x[:, :4].reshape(ROWS, 1, 8, 8)
        images = MODEL.with_name("convolutions.onnx")
        self.assert_one_error(run("train", images, "--loss", "mse", "--data", self.data(x=x, y=y[:, :4])),
                              "its targets are [N, 4], but those of", "[N, 10]")
        data = self.data(x=x, y=y[:, 0])
        done = run("train", images, "--loss", "cross-entropy", "--data", data)
        self.assertRegex(done.stderr, "labels are whole numbers where they are classes, these are float32")
        if pathlib.Path("/usr/share/datasets/fashion-mnist").exists():
            self.assert_one_error(run("train", "lenet5", "--loss", "mse"), "its labels are classes", "--loss")
        self.assert_one_error(run("plan", "lenet5", "--loss", "hinge"), "--loss", "hinge")


if __name__ == "__main__":
    unittest.main()
