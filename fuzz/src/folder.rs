//! The files of an input in a folder of their own, in memory where the system offers that.

use crate::Input;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a block of a K2 IS sector, and of its header.
const BLOCK: u64 = 22_360;
const BLOCK_HEADER: usize = 40;
const MOST_BLOCKS: usize = 160;
const N_SECTORS: usize = 8;

/// A folder that is removed when it is dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A new, empty folder.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn try_new() -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let in_memory = Path::new("/dev/shm");
        let parent =
            if in_memory.is_dir() { in_memory.to_path_buf() } else { std::env::temp_dir() };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("fuzzed-{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Folder(path))
    }

    /// Writes all files in the place of those that were there before, and gives the first one's
    /// path; its name is `main`.
    ///
    /// # Errors
    /// Whatever the system says, other than that a name is in use: then a file is left out.
    pub fn write(&self, input: &Input, main: &str) -> io::Result<PathBuf> {
        self.clear()?;
        for (number, part) in input.parts.iter().enumerate() {
            let path = self.0.join(if number == 0 { main } else { &part.name });
            if path.parent().is_some_and(|folder| fs::create_dir_all(folder).is_err()) {
                continue;
            }
            if number == 0 && part.bytes.is_empty() && input.parts.len() > 1 {
                continue;
            }
            if part.blocks {
                write_sectors(&path, &part.bytes)?;
                continue;
            }
            // A folder may have that name.
            let Ok(mut file) = File::create(&path) else { continue };
            file.write_all(&part.bytes)?;
            if part.padded > part.bytes.len() as u64 {
                file.set_len(part.padded)?;
            }
        }
        Ok(self.0.join(main))
    }

    /// Removes what is in it.
    fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays behind; there is no place for an error.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes sectors whose blocks have these headers, and pixels that are zeros.
fn write_sectors(path: &Path, headers: &[u8]) -> io::Result<()> {
    let name = path.to_string_lossy();
    let first = PathBuf::from(name.replace('*', "1"));
    let _ = fs::remove_file(&first);
    let Ok(mut file) = File::create_new(&first) else { return Ok(()) };
    let mut len = 0;
    for header in headers.chunks(BLOCK_HEADER).take(MOST_BLOCKS) {
        file.seek(SeekFrom::Start(len))?;
        file.write_all(header)?;
        // A last header that is cut is the end of the file.
        len += if header.len() == BLOCK_HEADER { BLOCK } else { header.len() as u64 };
    }
    file.set_len(len)?;
    if name.contains('*') {
        for sector in 2..=N_SECTORS {
            // Sectors look alike; a file of that name may be there already.
            let _ = fs::hard_link(&first, name.replace('*', &sector.to_string()));
        }
    }
    Ok(())
}
