"""Vocabulary shared by data sets and UDFs: shapes, slices, buffers."""
