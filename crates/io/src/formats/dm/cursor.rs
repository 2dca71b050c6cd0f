//! Reads a file from front to back in small pieces, and skips what is not wanted.

use crate::access::Storage;
use framefold_core::{Error, Result};

/// Bytes that are fetched at a time.
const WINDOW: u64 = 16 << 10;

pub(super) struct Cursor<'s> {
    storage: &'s Storage,
    at: u64,
    /// Bytes from `window_start` on.
    window: Vec<u8>,
    window_start: u64,
}

impl<'s> Cursor<'s> {
    pub(super) fn new(storage: &'s Storage, at: u64) -> Self {
        Cursor { storage, at, window: Vec::new(), window_start: at }
    }

    /// The offset of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.at
    }

    /// Names file and place in an error.
    pub(super) fn locate(&self, error: Error) -> Error {
        self.storage.locate(error).with_offset(self.at)
    }

    /// The same for a place that was passed.
    pub(super) fn locate_at(&self, error: Error, offset: u64) -> Error {
        self.storage.locate(error).with_offset(offset)
    }

    /// Goes on at `at`, which was passed already.
    pub(super) fn go_to(&mut self, at: u64) {
        self.at = at;
    }

    /// Passes over `n` bytes, all of which must be there.
    pub(super) fn skip(&mut self, n: u64) -> Result<()> {
        self.at = self.end(n)?;
        Ok(())
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let len = u64::try_from(N).unwrap_or(u64::MAX);
        let bytes = self.bytes(len)?;
        bytes.first_chunk().copied().ok_or_else(|| Error::bug("a window is too short"))
    }

    /// A name or text: UTF-8, or else Latin-1, as older writers knew nothing else.
    pub(super) fn text(&mut self, len: u64) -> Result<String> {
        let bytes = self.bytes(len)?;
        let latin = |bytes: &[u8]| bytes.iter().map(|&byte| char::from(byte)).collect();
        Ok(std::str::from_utf8(bytes).map_or_else(|_| latin(bytes), str::to_owned))
    }

    /// The next `len` bytes.
    pub(super) fn bytes(&mut self, len: u64) -> Result<&[u8]> {
        let end = self.end(len)?;
        let window_end = self.window_start + u64::try_from(self.window.len()).unwrap_or(0);
        if self.at < self.window_start || end > window_end {
            let available = self.storage.len() - self.at;
            let wanted = len.max(WINDOW).min(available);
            let wanted = usize::try_from(wanted).map_err(|_| Error::limit("a tag is too long"))?;
            self.window.resize(wanted, 0);
            self.storage.read_at(self.at, &mut self.window)?;
            self.window_start = self.at;
        }
        let start = usize::try_from(self.at - self.window_start).unwrap_or(usize::MAX);
        let n = usize::try_from(len).unwrap_or(usize::MAX);
        self.at = end;
        start
            .checked_add(n)
            .and_then(|end| self.window.get(start..end))
            .ok_or_else(|| Error::bug("a window is too short"))
    }

    /// Where the next `n` bytes end.
    fn end(&self, n: u64) -> Result<u64> {
        match self.at.checked_add(n) {
            Some(end) if end <= self.storage.len() => Ok(end),
            _ => {
                let left = self.storage.len().saturating_sub(self.at);
                let error = Error::bad_file(format!(
                    "the file ends within its tags: {n} bytes are needed, {left} are left"
                ))
                .with_hint("the file is truncated or damaged; copy it again");
                Err(self.locate(error))
            }
        }
    }
}
