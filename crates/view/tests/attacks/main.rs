//! What a viewer on a port has to bear: one test for each thing that was tried. Everything is sent as bytes, without a
//! library that would not send what is wrong.

mod support;

mod doors;
mod ending;
mod files;
mod load;
mod messages;
mod requests;
