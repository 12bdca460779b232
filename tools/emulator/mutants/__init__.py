"""Automatic mutants of the kernels' PTX: one line changed, a scenario run, everything compared with the true kernel's.

`rules` makes the mutants, `scenarios` launches a kernel by the engine's calls, `worker` tells what becomes of a mutant,
`pool` shares them among processes, `equivalent` and `coverage` know the mutants that nothing can tell from the true
kernel and the lines that nothing executes, `report` says what was found.
"""
