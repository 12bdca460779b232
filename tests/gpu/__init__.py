"""Tests that need a GPU: right to float64, repeatable to the byte, no compiler. `make test-gpu` runs them."""
