"""What a GPU computes for each instruction form, recorded for the emulator's tests."""
