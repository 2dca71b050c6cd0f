"""What travels between processes: values, code, data sets, runs, exceptions."""
