#!/usr/bin/env python3
"""heed beside PyTorch, ONNX Runtime and OpenVINO: the same numbers, one process, in turn, each sample between two
readings of the FMA peak. Prints a table in Markdown; run.sh makes what it needs."""
import argparse
import ctypes
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cells", default="", help="a regular expression that the cell's theme/name contains")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each contender of a cell")
    parser.add_argument("--shim", help="the shared library made of shim.cpp; without it, it is compiled by $CXX or g++")
    parser.add_argument("--json", help="a file for all figures")
    parser.add_argument("--from-json", help="measure nothing, show the figures of that file")
    parser.add_argument("--picture", help="an SVG file: share of the peak by length")
    parser.add_argument("--verbose", action="store_true", help="say which variants a package refused")
    parser.add_argument("--list", action="store_true", help="only name the cells")
    return parser.parse_args()


def pin(threads):
    """On the last cores of those allowed: the first one is the busiest. Before any package counts them."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < threads:
        sys.exit(f"{threads} threads on {len(allowed)} cores tell nothing")
    os.sched_setaffinity(0, allowed[-threads:])
    os.environ["OMP_NUM_THREADS"] = str(threads)


def load_shim(path):
    if path is None:
        folder = ROOT / "build" / "rivals"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "shim.so"
        subprocess.run([os.environ.get("CXX", "g++"), "-O2", "-std=c++20", "-shared", "-fPIC", "-pthread", "-I", ROOT,
                        "-I", ROOT / "include", HERE / "shim.cpp", "-o", path], check=True)
    shim = ctypes.CDLL(str(path))
    for name in ("peak_of_float", "peak_of_double", "read_bandwidth"):
        getattr(shim, name).restype = ctypes.c_double
    shim.heed_prepare.restype = ctypes.c_void_p
    shim.heed_kept.argtypes = [ctypes.c_void_p] + [ctypes.c_long] * 4 + [ctypes.c_double]
    shim.heed_run.argtypes = shim.heed_release.argtypes = [ctypes.c_void_p]
    shim.machine.restype = ctypes.c_char_p
    return shim


# How far off a result may be: some roundings of the element type, and of the float that narrow types are summed in. Who
# is further off has computed in a narrower type than the cell's.
ROUNDINGS = 5
SUMMED_IN = {"float": 5e-6, "bfloat16": 5e-6, "half": 5e-6, "double": 1e-12}
QUIET = 0.03  # seconds after which the idle workers of all packages have stopped to spin


def check(cell, data, contenders, shim, note):
    """heed must be right; a rival that is not has computed something else, and is left out."""
    last = cell.queries - 1
    rows = sorted({0, min(1, last), last // 3, last // 2, last}) if cell.passes == "forward" else slice(None)
    exact = data.exact(cell, rows, shim)
    limits = [ROUNDINGS * largest(one.to(data.query.dtype).double() - one) + SUMMED_IN[cell.type] * max(1, largest(one))
              for one in exact]
    error = 0.0
    for (who, variant), (run, result) in list(contenders.items()):
        run()
        found = result()
        if found is None:
            continue
        found = found if isinstance(found, tuple) else (found,)
        off = [largest(one[:, :, rows].double() - right) for one, right in zip(found, exact, strict=True)]
        is_right = all(one <= limit for one, limit in zip(off, limits))
        if who == "heed":
            error = max(off)
            assert is_right, f"{cell.name}: heed is off by {off}, more than {limits}"
        elif not is_right:
            note(f"{cell.name}: {who} {variant} is off by {max(off):.1e}: left out")
            del contenders[who, variant]
    return error


def largest(numbers):
    return numbers.abs().max().item()


class Yardstick:
    """What counts as 1: flop/s of all threads; in decode the roofline, and a reading empties the caches."""

    def __init__(self, cell, threads, shim):
        self.cell, self.threads, self.shim = cell, threads, shim
        self.agreement, self.nearness = (0.1, 0.2) if cell.is_cold else (0.04, 0.07)
        self.best = 0.0
        for _ in range(5):
            self.read()

    def read(self):
        one = self.shim.peak_of_double() if self.cell.type == "double" else self.shim.peak_of_float()
        rate = one * self.threads
        if self.cell.is_cold:
            bandwidth = self.shim.read_bandwidth()
            rate = self.cell.flops / max(self.cell.flops / rate, self.cell.bytes / bandwidth)
        self.best = max(self.best, rate)
        return rate

    def is_quiet(self, before, after):
        return abs(before - after) <= self.agreement * max(before, after) and \
            min(before, after) >= (1 - self.nearness) * self.best


def measure(cell, contenders, yardstick, rounds, seconds):
    """{contender: (median share, median seconds, samples that count)}. Where none counts, the medians are of all."""
    calls = {}
    for who, (run, _) in contenders.items():
        quickest = timed(run, 1)
        if quickest < 0.05:
            quickest = min(quickest, timed(run, 1), timed(run, 1))
        calls[who] = 1 if cell.is_cold else max(1, int(4e-3 / quickest))
    counted = {who: [] for who in contenders}
    every = {who: [] for who in contenders}
    order = list(contenders)
    begin = time.monotonic()
    while min(len(some) for some in counted.values()) < rounds:
        if len(every[order[0]]) >= 3 and time.monotonic() - begin > seconds * len(order):
            break
        for who in order:
            run = contenders[who][0]
            if yardstick.threads > 1:
                time.sleep(QUIET)
                run()  # wakes its own workers
            before = yardstick.read()
            busy = time.process_time()
            taken = timed(run, calls[who])
            busy = (time.process_time() - busy) / (taken * calls[who])
            after = yardstick.read()
            sample = cell.flops / taken / ((before + after) / 2), taken
            every[who].append(sample)
            if yardstick.is_quiet(before, after) and (yardstick.threads > 1 or busy > 0.98):
                counted[who].append(sample)
        order = order[1:] + order[:1]
    result = {}
    for who in contenders:
        used = counted[who] or every[who]
        result[who] = statistics.median(s for s, _ in used), statistics.median(t for _, t in used), len(counted[who])
    return result


def timed(run, calls):
    begin = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - begin) / calls


def versions():
    import importlib.metadata
    return ", ".join(f"{name} {importlib.metadata.version(package)}" for name, package in
                     (("PyTorch", "torch"), ("ONNX Runtime", "onnxruntime"), ("OpenVINO", "openvino")))


def run_cell(cell, options, shim, note):
    import contenders
    import torch
    with torch.inference_mode(cell.passes == "forward"):
        data = contenders.Operands(cell)
        all_of_them = contenders.all_contenders(cell, data, options.threads, shim, note)
        error = check(cell, data, all_of_them, shim, note)
        found = measure(cell, all_of_them, Yardstick(cell, options.threads, shim), options.rounds, options.seconds)
    best, flexible = {}, None
    for (who, variant), (share, seconds, counted) in found.items():
        one = {"share": share, "us": seconds * 1e6, "variant": variant, "counted": counted}
        if variant == FLEXIBLE:
            flexible = one
        if who not in best or share > best[who]["share"]:
            best[who] = one
    return {"theme": cell.theme, "name": cell.name, "seq_len": cell.seq_len,
            "head_dim": cell.head_dim, "error": error, "best": best, "flexible": flexible,
            "counted": min(one["counted"] for one in best.values())}


WHO = ("PyTorch", "ONNX Runtime", "OpenVINO")
FLEXIBLE = "FlexAttention"  # has a table of its own, whoever is the best rival


def best_rival(row):
    rivals = [(one["share"], who) for who, one in row["best"].items() if who != "heed"]
    return max(rivals) if rivals else (None, None)


def ratio(row):
    share, _ = best_rival(row)
    return row["best"]["heed"]["share"] / share if share else None


def print_head(facts):
    for name, text in facts.items():
        print(f"{name}: {text}")
    print("\n| cell | heed | best rival | who | heed over it | " + " | ".join(WHO) + " | heed, us | heed's error | counted |")
    print("|---|--:|--:|---|--:|" + "--:|" * len(WHO) + "--:|--:|--:|", flush=True)


def print_row(row):
    share, who = best_rival(row)
    shares = [f"{row['best'][one]['share']:.3f}" if one in row["best"] else "" for one in WHO]
    mine = row["best"]["heed"]
    cells = [row["name"], f"{mine['share']:.3f}", f"{share:.3f}" if who else "",
             f"{who} {row['best'][who]['variant']}" if who else "none can", f"**{ratio(row):.2f}**" if who else "",
             *shares, f"{mine['us']:.4g}", f"{row['error']:.1e}", str(row["counted"])]
    print("| " + " | ".join(cells) + " |", flush=True)


def print_foot(rows):
    compared = [row for row in rows if ratio(row)]
    if not compared:
        return
    mean = math.exp(statistics.fmean(math.log(ratio(row)) for row in compared))
    worst = min(compared, key=ratio)
    slower = sum(ratio(row) < 1 for row in compared)
    print(f"\nGeometric mean over {len(compared)} cells: {mean:.2f}; worst cell: {worst['name']}, {ratio(worst):.2f}; "
          f"cells slower than the best rival: {slower}")


def print_flexible(rows):
    met = [row for row in rows if row["flexible"]]
    if not met:
        return
    print(f"\n| cell | heed | PyTorch {FLEXIBLE} | heed over it | heed, us | {FLEXIBLE}, us | counted |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for row in met:
        mine, its = row["best"]["heed"], row["flexible"]
        print(f"| {row['name']} | {mine['share']:.3f} | {its['share']:.3f} | **{mine['share'] / its['share']:.2f}** | "
              f"{mine['us']:.4g} | {its['us']:.4g} | {min(mine['counted'], its['counted'])} |")


def main():
    options = arguments()
    import cells
    chosen = [cell for cell in cells.all_cells() if re.search(options.cells, f"{cell.theme}/{cell.name}")]
    if options.list:
        print("\n".join(f"{cell.theme}/{cell.name}" for cell in chosen))
        return
    if options.from_json:
        everything = json.loads(pathlib.Path(options.from_json).read_text())
        facts, rows = everything["facts"], everything["rows"]
        print_head(facts)
        for row in rows:
            print_row(row)
    else:
        pin(options.threads)
        import torch
        torch.set_num_threads(options.threads)
        shim = load_shim(options.shim)
        note = (lambda text: print(f"# {text}", file=sys.stderr)) if options.verbose else (lambda text: None)
        facts = {"processor": shim.machine().decode(), "threads": str(options.threads), "packages": versions(),
                 "load average before": " ".join(f"{x:.2f}" for x in os.getloadavg())}
        print_head(facts)
        rows = []
        for cell in chosen:
            rows.append(run_cell(cell, options, shim, note))
            print_row(rows[-1])
    print_foot(rows)
    print_flexible(rows)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"facts": facts, "rows": rows}, indent=1) + "\n")
    if options.picture:
        import picture
        pathlib.Path(options.picture).write_text(picture.draw(facts, rows))


if __name__ == "__main__":
    main()
