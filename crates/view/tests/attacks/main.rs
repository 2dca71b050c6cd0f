//! What a viewer on a port has to bear: one test for each thing that was tried. Everything is sent as bytes, without a
//! library that would not send what is wrong.

#[cfg(test)]
mod support;

#[cfg(test)]
mod doors;
#[cfg(test)]
mod ending;
#[cfg(test)]
mod files;
#[cfg(test)]
mod load;
#[cfg(test)]
mod messages;
#[cfg(test)]
mod requests;
