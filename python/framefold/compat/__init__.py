"""Names that scripts find as in the reference: elsewhere, later, and as ``libertem``."""
