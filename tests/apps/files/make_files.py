"""Writes the pictures and arrays beside it, and expected.txt: what PyTorch makes of the pictures. Run by hand, with PyTorch,
Pillow and NumPy installed, when a file is added; the tests read the files.

    python3 make_files.py

Of each picture one line: `NAME CHANNELS HEIGHT WIDTH VALUES`, bilinear to 5x7 from what Pillow decodes, within 0 and 255.
"""

import pathlib

import numpy as np
import torch
from PIL import Image

HERE = pathlib.Path(__file__).parent
HEIGHT, WIDTH = 5, 7


def waves(height, width):
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([127 + 120 * np.sin(x / 3), 127 + 120 * np.cos(y / 4), (x * 5 + y * 3) % 256], axis=2).astype(np.uint8)


def line(name, channels):
    picture = np.array(Image.open(HERE / name).convert("RGB" if channels == 3 else "L"), dtype=np.float32)
    tensor = torch.from_numpy(picture.reshape(*picture.shape[:2], channels).transpose(2, 0, 1)[None])
    small = torch.nn.functional.interpolate(tensor, size=(HEIGHT, WIDTH), mode="bilinear", align_corners=False)
    return f"{name} {channels} {HEIGHT} {WIDTH} " + " ".join(f"{value:.7g}" for value in small.flatten().tolist())


pictures = {"waves.png": Image.fromarray(waves(12, 17)),
            "small.png": Image.fromarray(waves(3, 2)),
            "grey.png": Image.fromarray(waves(9, 9)[:, :, 0]),
            "palette.png": Image.fromarray(waves(10, 10)).convert("P"),
            "clear.png": Image.fromarray(np.dstack([waves(9, 11), waves(11, 9)[:, :, 2].T])),
            "clear_grey.png": Image.fromarray(waves(9, 11)[:, :, 2]).convert("LA"),
            "inks.jpg": Image.fromarray(waves(24, 20)).convert("CMYK"),
            "waves.jpg": Image.fromarray(waves(24, 20))}
for name, picture in pictures.items():
    picture.save(HERE / name)
Image.fromarray(waves(24, 20)).save(HERE / "progressive.jpg", progressive=True)
lines = [line(name, channels) for name in [*pictures, "progressive.jpg"] for channels in (3, 1)]
(HERE / "expected.txt").write_text("\n".join(lines) + "\n")

x = np.arange(40 * 6, dtype=np.float64).reshape(40, 2, 3) / 8
y = (np.arange(40) * 7 % 5).astype(np.int32)
np.savez(HERE / "stored.npz", x_train=x[:30], y_train=y[:30], x_test=x[30:], y_test=y[30:])
np.savez_compressed(HERE / "deflated.npz", x=x, y=y)
np.save(HERE / "alone.npy", y.astype("u1"))
