//! The binary as a user meets it: files in, files, words and exit codes out.

#[cfg(test)]
mod convert;
#[cfg(test)]
mod corrections;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod info;
#[cfg(test)]
mod interrupt;
#[cfg(test)]
mod outputs;
#[cfg(test)]
mod real_files;
#[cfg(test)]
mod run;
#[cfg(test)]
mod several;
#[cfg(test)]
mod support;
#[cfg(test)]
#[cfg(feature = "view")]
mod view;
