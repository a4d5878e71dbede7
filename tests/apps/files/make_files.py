"""Writes the pictures and arrays beside it, and expected.txt: what PyTorch makes of the pictures. Run by hand, with PyTorch,
Pillow and NumPy installed, when a file is added; the tests read the files.

    python3 make_files.py

Of each picture one line: `NAME CHANNELS HEIGHT WIDTH VALUES`, bilinear to 5x7 from what Pillow decodes, within 0 and 255.
"""

import pathlib
import struct
import zlib

import numpy as np
import torch
from PIL import Image

HERE = pathlib.Path(__file__).parent
HEIGHT, WIDTH = 5, 7


def waves(height, width):
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([127 + 120 * np.sin(x / 3), 127 + 120 * np.cos(y / 4), (x * 5 + y * 3) % 256], axis=2).astype(np.uint8)


def write_png(name, pixels, extra=b""):
    """Of [height, width, 3] or [height, width], of 8 or 16 bits, with a chunk before the pixels: what Pillow cannot write."""
    def chunk(kind, contents):
        return struct.pack(">I", len(contents)) + kind + contents + struct.pack(">I", zlib.crc32(kind + contents))
    height, width = pixels.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, 8 * pixels.itemsize, 2 if pixels.ndim == 3 else 0, 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(row.dtype.newbyteorder(">")).tobytes() for row in pixels)
    (HERE / name).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + (chunk(b"gAMA", extra) if extra else b"")
                              + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def line(name, channels, same_as=None):
    """`same_as`: a picture of 8 bits that it is to be read as."""
    picture = np.array(Image.open(HERE / (same_as or name)).convert("RGB" if channels == 3 else "L"), dtype=np.float32)
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
# Their pixels are those of another file, in 16 bits or with a gamma of 1.
write_png("deep.png", waves(12, 17).astype(np.uint16) * 257)
write_png("deep_grey.png", waves(9, 9)[:, :, 0].astype(np.uint16) * 257)
write_png("gamma.png", waves(12, 17), struct.pack(">I", 100000))
lines += [line(name, channels, same_as) for name, same_as in (("deep.png", "waves.png"), ("deep_grey.png", "grey.png"),
                                                              ("gamma.png", "waves.png")) for channels in (3, 1)]
(HERE / "expected.txt").write_text("\n".join(lines) + "\n")

x = np.arange(40 * 6, dtype=np.float64).reshape(40, 2, 3) / 8
y = (np.arange(40) * 7 % 5).astype(np.int32)
np.savez(HERE / "stored.npz", x_train=x[:30], y_train=y[:30], x_test=x[30:], y_test=y[30:])
np.savez_compressed(HERE / "deflated.npz", x=x, y=y)
np.save(HERE / "alone.npy", y.astype("u1"))
