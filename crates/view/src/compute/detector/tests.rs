//! Shapes against plain definitions.
