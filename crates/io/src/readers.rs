//! What formats end in: sources of frames, by how the pixels lie and not by who wrote them.

pub(crate) mod chunked;
pub(crate) mod composed;
pub(crate) mod csr;
pub(crate) mod linear;
pub(crate) mod memory;
pub(crate) mod oriented;
pub(crate) mod recut;
pub(crate) mod stack;
pub(crate) mod staged;
pub(crate) mod strided;
