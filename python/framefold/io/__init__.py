"""Reading of data sets."""
