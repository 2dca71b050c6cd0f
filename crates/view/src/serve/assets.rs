//! The page, its script and its style: as built from `web/`, in the program.

pub(super) use crate::page::{PAGE, SCRIPT, STYLE};
