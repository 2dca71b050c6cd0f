"""What executors are made of, under the module path of the reference system."""
