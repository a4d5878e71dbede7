"""One image at a time on one core against ONNX Runtime, in turns within one run: medians of ratios.

    against_onnxruntime.py --python PYTHON [--models FOLDER] [--kerf build/release/bin/kerf] [--rounds 7] [--images 24]
                           [--only resnet] [--skip-answers] [--json]

PYTHON is an interpreter that has onnxruntime and onnx. FOLDER has models light_*.onnx; without it, shared/data/onnx in a
folder above the sources. A ratio is Kerf's time for an image, the latency that `kerf infer --batch 1` reports, over ONNX
Runtime's; below 1 Kerf is faster. First both answer with the same random weights: a difference above 1e-4 of the
largest number ends the run.
"""

import argparse
import json
import math
import pathlib
import statistics
import sys
import tempfile

from turns import KERF, answer, in_turns, ratios_of, told_ratio

HERE = pathlib.Path(__file__).resolve().parent
MOST_DIFFERENCE = 1e-4
PEER = str(HERE / "peer_onnxruntime.py")


def given_models():
    for folder in HERE.parents:
        if (folder / "shared/data/onnx").is_dir():
            return folder / "shared/data/onnx"
    return None


def infer(kerf, model, name, rows, folder):
    return answer([kerf, "infer", model, "--batch", 1, "--workers", 1, "--transport", "inproc", "--threads", 1, "--input",
                   f"{name}={rows}", "--output", folder, "--json"])


def check_answers(arguments, model, data, folder):
    drawn, rows = folder / "drawn.onnx", folder / "rows.npy"
    infer(arguments.kerf, drawn, data, rows, folder / "answers")
    difference = answer([arguments.python, PEER, "compare", drawn, rows, folder / "answers"])["difference"]
    if not difference <= MOST_DIFFERENCE:
        sys.exit(f"{model.name}: answers differ by {difference:.1e} of the largest")
    return difference


def measure(arguments, model):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = answer([arguments.python, PEER, "draw", model, folder, "--rows", arguments.images])["input"]
        difference = None if arguments.skip_answers else check_answers(arguments, model, data, folder)
        (folder / "drawn.onnx").unlink()
        versions = set()

        def peer():
            report = answer([arguments.python, PEER, "time", model, folder / "rows.npy"])
            versions.add(report["onnxruntime"])
            return statistics.median(report["row_seconds"])

        sides = {"kerf": lambda: infer(arguments.kerf, model, data, folder / "rows.npy", folder / "out")["latency_seconds"],
                 "peer": peer}
        times = in_turns(sides, arguments.rounds)
    return {"onnxruntime": versions.pop(), "kerf_seconds": statistics.median(times["kerf"]),
            "onnxruntime_seconds": statistics.median(times["peer"]), "difference": difference,
            **ratios_of(times["kerf"], times["peer"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kerf", default=KERF)
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has onnxruntime and onnx")
    parser.add_argument("--models", type=pathlib.Path, default=given_models(), help="a folder with light_*.onnx")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--images", type=int, default=24, help="of each run")
    parser.add_argument("--only", default="", help="models whose name has this, as in resnet")
    parser.add_argument("--skip-answers", action="store_true", help="do not compare answers first")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = sorted(arguments.models.glob("light_*.onnx")) if arguments.models else []
    models = [each for each in found if arguments.only in each.name]
    if not models:
        sys.exit("there are no light_*.onnx: name their folder with --models")
    report = {}
    for model in models:
        result = report[model.stem] = measure(arguments, model)
        if not arguments.json:
            print(f"{model.stem}: kerf {result['kerf_seconds'] * 1e3:.2f} ms, onnxruntime {result['onnxruntime']} "
                  f"{result['onnxruntime_seconds'] * 1e3:.2f} ms, ratio {told_ratio(result)}", flush=True)
    ratios = [each["ratio"] for each in report.values()]
    mean = math.exp(statistics.mean(map(math.log, ratios)))
    if arguments.json:
        print(json.dumps({"models": report, "geometric_mean": mean, "most": max(ratios)}, indent=2))
    else:
        print(f"geometric mean {mean:.2f}, most {max(ratios):.2f}")


main()
