"""Each outside library has one home, so that it can be replaced there; the core asks for no CUDA."""

import re

from source_tree import CODE, FLOORS, files, finish, includes, root_from_arguments

HOMES = [
    # what is included, where it may be
    (r"fmt/.*", r"runtime/format\.h"),
    (r"nlohmann/.*", r"runtime/json\.(h|cc)"),
    (r"cereal/.*", r"runtime/wire\.(h|cc)"),
    (r"zmq(\.h|\.hpp|_addon\.hpp)", r"runtime/zmq/.*"),
    (r"sodium(\.h|/.*)", r"runtime/sodium/.*"),
    (r"(oneapi/)?dnnl.*", r"ops/cpu/.*"),
    (r"(omp\.h|immintrin\.h|cblas\.h)", r"ops/(cpu|simd)/.*"),
    (r"boost/(graph|property_map|pending|adjacency).*", r"partitioner/.*"),
    (r"boost/crc\.hpp", r"runtime/.*"),
    (r"boost/.*", r"(partitioner|runtime)/.*"),
    (r"(onnx|google/protobuf)/.*", r"partitioner/onnx/.*"),
    (r"CLI/.*", r"apps/.*"),
    (r"(zlib|zconf)\.h", r"apps/.*"),
    (r"(png|pngconf|jpeglib|jerror)\.h", r"apps/data/.*"),
    (r"(cuda|cublas|cudnn|nccl|curand|cub/|thrust/).*", r"(runtime|ops)/cuda/.*"),
]
CONDITIONAL = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b.*CUDA")


def main():
    root = root_from_arguments()
    faults, checked = [], 0
    for path in files(root, FLOORS, CODE):
        checked += 1
        for line, _, name in includes(root, path):
            home = next((home for library, home in HOMES if re.fullmatch(library, name)), None)
            if home and not re.fullmatch(home, str(path)):
                faults.append(f"{path}:{line}: <{name}> belongs in {home}")
        if "/cuda/" in str(path):
            continue
        for line, text in enumerate((root / path).read_text().splitlines(), 1):
            if CONDITIONAL.match(text):
                faults.append(f"{path}:{line}: no #if of CUDA outside cuda/: use the no_cuda/ folder")
    finish(faults, checked)


main()
