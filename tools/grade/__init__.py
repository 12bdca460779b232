"""The harness: judges an engine folder as a stranger would. `python -m tools.grade check FOLDER`, `... bench FOLDER`.

    traces/*.json ──▶ trace_file ──▶ script ──▶ process ─ control channel ─▶ worker: the engine's own process
                                       │           ├ watch: what the process asks of the system       │
                            data ──▶ arena         └ memory: what it holds                            │
                                       └────────── the caller's arrays, shared ───────────────────────┘

The engine's process is never trusted. The caller's arrays lie in memory of the harness, which the process maps; inputs
come from a salt drawn at each grading; outputs, inputs and the gaps between them are judged over here, in `check` and
`bench`, by the formulas of tools/reference. In the engine's process runs a small program without a name, `worker`, that
only makes calls.
"""
