//! Every reduction, held to the laws of its contract and to its definition.

mod com;
mod logsum;
mod masks;
mod max;
mod pick;
mod stddev;
mod sum;
mod sum_sig;
mod support;
