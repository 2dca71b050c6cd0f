//! Functions compiled elsewhere, as tables written by hand.

#[cfg(test)]
mod bad;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod safe;
#[cfg(test)]
mod sums;
#[cfg(test)]
mod views;
