"""A run, from its arguments to its results; private, users come by :class:`framefold.Context`."""
