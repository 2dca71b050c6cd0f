//! Writing arrays, seen from outside.

#[cfg(test)]
#[path = "write/arrays.rs"]
mod arrays;
