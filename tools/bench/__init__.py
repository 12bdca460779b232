"""Timings on a GPU beside named peers; __main__.py has the design."""
