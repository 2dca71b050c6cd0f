"""Runs as graphs of Dask tasks."""
