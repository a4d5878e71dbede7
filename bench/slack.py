"""What `--slack` saves: bytes of a layer cut with it over bytes without it.

    VENV/bin/python bench/slack.py build/release/bin/kerf [FILE ...] [--slack 0.1] [--workers 2 4 8] [--certify] [--json]

Files are ONNX models (batch 32, forward FLOPs) and profiles of PipeDream (`.txt`); without any, the nine light models of the onnx package
(`pip install onnx`). Prints the geometric mean over all files and numbers of workers, and of each number by itself. *Least* is a plan whose
certificate proves that its bottleneck is the least there is, or (with slack) that nothing within the slack has fewer bytes.
"""

import argparse
import glob
import json
import math
import pathlib
import subprocess
import sys


def light_models():
    import onnx

    return sorted(glob.glob(str(pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_*.onnx")))


def planned(asked, file, workers, slack):
    flags = ["--format", "pipedream"] if file.endswith(".txt") else ["--batch", "32", "--objective", "forward-flops"]
    flags += ["--slack", str(slack)] if slack else []
    flags += ["--certify"] if asked.certify else []
    command = [asked.kerf, "plan", file, "--workers", str(workers), *flags, "--json"]
    plan = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {"bottleneck": plan["bottleneck"], "bytes": plan["cut_bytes"], "exact": plan["certificate"]["kind"] == "exact",
            "fewest": "has fewer bytes" in plan["certificate"]["witness"]}


def mean(rows):
    return math.exp(sum(math.log(row["bytes"]) for row in rows) / len(rows)) if rows else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kerf")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--slack", type=float, default=0.1)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--certify", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = []
    for file in asked.files or light_models():
        for workers in asked.workers:
            tight = planned(asked, file, workers, 0)
            wide = planned(asked, file, workers, asked.slack)
            rows.append({"file": pathlib.Path(file).stem, "workers": workers, "bottleneck": wide["bottleneck"] / tight["bottleneck"],
                         "bytes": wide["bytes"] / tight["bytes"], "least": tight["exact"] and wide["fewest"]})
            if not asked.json:
                row = rows[-1]
                print(f"{row['file']:24} {workers:2} workers: bottleneck {row['bottleneck']:.3f}, bytes {row['bytes']:.3f}"
                      f"{', the least there is' if row['least'] else ''}", flush=True)
    means = {"all": mean(rows), **{str(k): mean([row for row in rows if row["workers"] == k]) for k in asked.workers}}
    if asked.json:
        print(json.dumps({"rows": rows, "geometric_mean": means}, indent=1))
    else:
        print("geometric mean " + ", ".join(f"{name}: {value:.4f}" for name, value in means.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
