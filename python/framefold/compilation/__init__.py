"""Functions that users have compiled: what is marked, how it is compiled, and where it is kept."""
