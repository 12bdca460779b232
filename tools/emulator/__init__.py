"""Tools that run kernels on the emulator (docs/emulator.md): `python -m tools.emulator --help` lists them."""
