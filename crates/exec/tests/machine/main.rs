//! The run machine as a whole: right results, the same bits everywhere, and order in failure.

#[cfg(test)]
mod arriving;
#[cfg(test)]
mod bands;
#[cfg(test)]
mod beside;
#[cfg(test)]
mod corrections;
#[cfg(test)]
mod devices;
#[cfg(test)]
mod differential;
#[cfg(test)]
mod encoded;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod formats;
#[cfg(test)]
mod panics;
#[cfg(test)]
mod read_ahead;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod rows;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod staged;
#[cfg(test)]
mod stages;
#[cfg(test)]
mod tiling;
