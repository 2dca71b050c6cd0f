//! Bytes at places in a file.

use crate::write::whole::failed;
use framefold_core::Result;
use std::fs::File;
use std::path::Path;

/// Writes bytes to their place in a file, also while other threads do.
///
/// # Errors
/// `Io`.
pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64, path: &Path) -> Result<()> {
    #[cfg(unix)]
    let done = std::os::unix::fs::FileExt::write_all_at(file, bytes, offset);
    #[cfg(windows)]
    let done = (|| {
        let (mut rest, mut offset) = (bytes, offset);
        while !rest.is_empty() {
            let n = std::os::windows::fs::FileExt::seek_write(file, rest, offset)?;
            rest = &rest[n..];
            offset += n as u64;
        }
        Ok(())
    })();
    done.map_err(|error| failed(error, path).with_offset(offset))
}
