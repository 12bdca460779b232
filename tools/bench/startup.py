"""How long the assembled engine takes to import and to build, without torch: `python -m tools.bench.startup`.

Each figure is from processes of its own, with the CUDA context made before the clock starts and the files in the page
cache. Times are in milliseconds.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from .assembled import REPOSITORY, load_submission, submission_folder

REPEATS = 5
CAPACITY = {"max_sequences": 8, "max_seq_len": 16384, "max_cached_tokens": 32768}
STRATA = ((64, 32), (64, 64), (128, 32), (128, 64))


def measure_once(head_dim: int, gate_dim: int) -> dict[str, float]:
    """Milliseconds of the import, the first build of all modes, and a second one in the same process."""
    start = time.perf_counter()
    package = load_submission()
    times = {"import": time.perf_counter() - start}
    from tools.demo.device_memory import Device

    device = Device()
    config = {"head_dim": head_dim, "gate_dim": gate_dim, "q_heads": 32, "kv_heads": 8, **CAPACITY}
    for name in ("build", "build again"):
        start = time.perf_counter()
        engine = package.build_engine(config)
        times[name] = time.perf_counter() - start
        engine.close()
    del device
    return {name: 1e3 * seconds for name, seconds in times.items()}


def measure(strata: Sequence[tuple[int, int]] = STRATA) -> list[dict]:
    """{head_dim, gate_dim, import, build, build again} for each (head_dim, gate_dim).

    The times are medians over fresh processes, the first of which only warms the page cache. Errors: RuntimeError with
    what a process that failed had to say.
    """
    rows = []
    for head_dim, gate_dim in strata:
        command = [sys.executable, "-m", "tools.bench.startup", str(head_dim), str(gate_dim)]
        runs = []
        for _ in range(REPEATS + 1):
            output = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
            if output.returncode != 0:
                raise RuntimeError(output.stderr)
            runs.append(json.loads(output.stdout))
        times = {name: statistics.median(run[name] for run in runs[1:]) for name in runs[0]}
        rows.append({"head_dim": head_dim, "gate_dim": gate_dim, **times})
    return rows


def pack_bytes() -> int:
    """Bytes of all files of the assembled engine's pack."""
    return sum(file.stat().st_size for file in (submission_folder() / "cubins").rglob("*") if file.is_file())


def show(rows: list[dict]) -> None:
    """Prints the rows of `measure`."""
    print(f"Start-up without torch, medians of {REPEATS} processes, ms")
    for row in rows:
        times = (f"{name} {row[name]:.1f}" for name in ("import", "build", "build again"))
        print(f"  D {row['head_dim']:3} R {row['gate_dim']:2}  " + "  ".join(times))


def main() -> None:
    """Without arguments measures every stratum; with head_dim and gate_dim one process's times, as JSON."""
    if len(sys.argv) == 3:
        print(json.dumps(measure_once(*map(int, sys.argv[1:]))))
        return
    show(measure())
    print(f"Pack: {pack_bytes() / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
