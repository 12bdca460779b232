"""Profiles of kernels that run on the emulator."""
