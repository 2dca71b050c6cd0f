"""What connects framefold to other libraries."""
