"""CUDA devices: who works on them, and how tiles get there.

Imported when a UDF of a run takes an array format for CUDA; CuPy when a device is used.
"""
