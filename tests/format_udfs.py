"""A function for tests that says which array format it gets."""

from framefold.udf import UDF


class Asks(UDF):
    """Takes the formats that it is given, and processes nothing."""

    def get_backends(self):
        return self.params.formats

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {"format": self.buffer("nav", dtype=object)}

    def process_tile(self, tile):
        self.results.format[:] = self.meta.array_backend
