"""The Python half of the engine's adapter for functions in Python."""
