"""Workers of a Dask cluster."""
