//! Compressed sparse rows, seen from outside: against dense arrays, in every dtype, and with
//! arrays and descriptors that lie.

mod descriptor;
mod hostile;
mod in_order;
mod lending;
mod read;
mod support;
mod write;
