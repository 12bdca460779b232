// A source for the target whose precompiled headers all tests use.
