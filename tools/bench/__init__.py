"""Timings on a GPU beside named peers. `python -m tools.bench` compares the portable kernels with a Triton kernel."""
