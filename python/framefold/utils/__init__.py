"""Helpers around the engine: simulated data and an encoder for test files."""
