//! Every reduction, held to the laws of its contract and to its definition.

#[cfg(test)]
mod by_address;
#[cfg(test)]
mod com;
#[cfg(test)]
mod doubts;
#[cfg(test)]
mod given;
#[cfg(test)]
mod guide;
#[cfg(test)]
mod logsum;
#[cfg(test)]
mod masks;
#[cfg(test)]
mod max;
#[cfg(test)]
mod pick;
#[cfg(test)]
mod rows;
#[cfg(test)]
mod shifted;
#[cfg(test)]
mod sparse;
#[cfg(test)]
mod stddev;
#[cfg(test)]
mod sum;
#[cfg(test)]
mod sum_sig;
#[cfg(test)]
mod support;
#[cfg(test)]
mod table;
