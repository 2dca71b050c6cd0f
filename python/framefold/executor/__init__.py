"""Where partitions are processed."""
