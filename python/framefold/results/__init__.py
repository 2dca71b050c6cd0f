"""What becomes of results: files, pictures, and objects of other libraries."""
