//! Functions of the session as channels.

use crate::{OwnFunction, Picture};
use framefold::{Cancel, Result};
use std::fmt;

/// Functions that the program that made the viewer adds as channels, such as UDFs in Python.
pub trait Own: Send + Sync {
    /// What they are, and which of their result buffers are pictures. Asked for by each client.
    fn describe(&self) -> Vec<OwnFunction>;

    /// Computes the buffer `buffer` of the function `name`, with pictures that get better; the last one is
    /// exact. Called on the thread of an answer, by several at once.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such function or buffer; `UserCode` from the function; `Cancelled`;
    /// that of `emit`.
    fn run(
        &self,
        name: &str,
        buffer: &str,
        cancel: &Cancel,
        emit: &mut dyn FnMut(Picture) -> Result<()>,
    ) -> Result<()>;
}

impl fmt::Debug for dyn Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.describe()).finish()
    }
}
