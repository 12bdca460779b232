"""Tile-plan search: compiles the points of a sweep, checks them, times them in turns, and writes a better tile back.

A sweep is a JSON file, its state is one folder, and four stages work on that folder:

    compile   points of the ranges -> refused by stratum-gen, failed, or compiled: a pack each       no GPU needed
    time      compiled points -> wrong, or timed: every round goes over all of them; then
              the fastest and the plan's own tile alone, in confirming rounds                       no compiler needed
    report    table, CSV, plot                                                                        neither
    apply     the winner's tile into the plan file, if its confirmed margin exceeds the spread        neither

The folder holds all that a stage needs of the ones before, so it can be carried from a machine that compiles to one
that has a GPU and back. Whatever is decided (a point, a check, a round) is a file written whole, so a killed stage goes
on where it was. docs/sweep.md defines both formats.
"""
