//! Writing arrays, seen from outside.

mod arrays;
