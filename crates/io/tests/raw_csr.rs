//! Compressed sparse rows, seen from outside: against dense arrays, in every dtype, and with
//! arrays and descriptors that lie.

#[cfg(test)]
#[path = "raw_csr/descriptor.rs"]
mod descriptor;
#[cfg(test)]
#[path = "raw_csr/hostile.rs"]
mod hostile;
#[cfg(test)]
#[path = "raw_csr/in_order.rs"]
mod in_order;
#[cfg(test)]
#[path = "raw_csr/lending.rs"]
mod lending;
#[cfg(test)]
#[path = "raw_csr/read.rs"]
mod read;
#[cfg(test)]
#[path = "raw_csr/support.rs"]
mod support;
#[cfg(test)]
#[path = "raw_csr/write.rs"]
mod write;
