"""Parts of :class:`framefold.Context`; private."""
