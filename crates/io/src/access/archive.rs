//! Zip archives as folders of bytes: members that were only stored are used where they lie, deflated
//! ones are decoded, each by itself.

use crate::access::Storage;
use framefold_core::{Error, Result};
use std::collections::BTreeMap;
use std::io::{Error as IoError, ErrorKind as IoKind, Read, Seek, SeekFrom};
use std::ops::Range;
use zip::{CompressionMethod, System, ZipArchive};

/// Deflate makes at most so many bytes of one.
const MOST_PER_BYTE: u64 = 1032;
/// The length of the header before each member, without its name and extra fields.
const LOCAL: usize = 30;

/// What starts an archive.
pub(crate) const MAGIC: &[u8] = b"PK\x03\x04";

/// The members of an archive.
#[derive(Debug)]
pub(crate) struct Archive {
    storage: Storage,
    members: BTreeMap<String, Member>,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// Where its own header is.
    header: u64,
    stored_len: u64,
    /// Its length when it is decoded.
    pub(crate) len: u64,
    /// Of its bytes when they are decoded.
    crc32: u32,
    method: CompressionMethod,
    encrypted: bool,
}

impl Member {
    fn is_deflated(self) -> bool {
        self.method == CompressionMethod::DEFLATE
    }
}

impl Archive {
    /// Reads the list of members.
    ///
    /// # Errors
    /// `BadFile` if there is none; `Io`.
    pub(crate) fn open(storage: Storage) -> Result<Self> {
        let failed = |error: zip::result::ZipError| {
            let error =
                Error::bad_file(format!("the archive's list of files cannot be read: {error}"));
            let error = error.with_offset(storage.len());
            storage.locate(error.with_hint("the archive is cut short or damaged; copy it again"))
        };
        let cursor = Cursor { storage: storage.clone(), at: 0 };
        let archive = ZipArchive::new(std::io::BufReader::new(cursor)).map_err(failed)?;
        let mut members = BTreeMap::new();
        for i in 0..archive.len() {
            let entry = archive.by_index_data(i).map_err(failed)?;
            let mut name = String::from_utf8_lossy(entry.name_raw()).into_owned();
            // As some programs write names there.
            if matches!(entry.system(), System::Dos | System::WindowsNTFS) && !name.contains('/') {
                name = name.replace('\\', "/");
            }
            if name.ends_with('/') {
                continue;
            }
            members.insert(
                name,
                Member {
                    header: entry.header_start(),
                    stored_len: entry.compressed_size(),
                    len: entry.size(),
                    crc32: entry.crc32(),
                    method: entry.compression(),
                    encrypted: entry.encrypted(),
                },
            );
        }
        Ok(Archive { storage, members })
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    pub(crate) fn get(&self, name: &str) -> Option<Member> {
        self.members.get(name).copied()
    }

    /// The names of all members, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    /// The next parts of names that begin with `prefix` and go on with a slash after them, in order.
    pub(crate) fn folders(&self, prefix: &str, most: usize) -> Vec<String> {
        let mut found = Vec::new();
        let mut from = prefix.to_owned();
        while found.len() < most {
            let next = self.members.range(from.clone()..).next().map(|(name, _)| name);
            let Some(rest) = next.and_then(|name| name.strip_prefix(prefix)) else { break };
            match rest.split_once('/') {
                // Past all that is within it: '0' comes after '/'.
                Some((folder, _)) => {
                    found.push(folder.to_owned());
                    from = format!("{prefix}{folder}0");
                }
                None => from = format!("{prefix}{rest}\0"),
            }
        }
        found
    }

    /// The bytes of a member as they are stored.
    ///
    /// # Errors
    /// `BadFile` if they are not where they should be, or say to decode to more than they can;
    /// `Unsupported` if they are encrypted, or compressed in another way.
    pub(crate) fn place(&self, name: &str, member: Member) -> Result<Range<u64>> {
        let how = match member.method {
            _ if member.encrypted => Some("encrypted".to_owned()),
            CompressionMethod::STORE | CompressionMethod::DEFLATE => None,
            other => Some(format!("compressed by {other}")),
        };
        if let Some(how) = how {
            let error = Error::unsupported(format!("'{name}' in the archive is {how}"));
            let error = error.with_offset(member.header);
            return Err(self
                .storage
                .locate(error.with_hint("write the archive without compression")));
        }
        let wrong = |what: String| {
            let error = Error::bad_file(format!("'{name}' in the archive: {what}"));
            let error = error.with_offset(member.header);
            self.storage
                .locate(error.with_hint("the archive is cut short or damaged; copy it again"))
        };
        let mut header = [0; LOCAL];
        if member.header.saturating_add(30) > self.storage.len() {
            return Err(wrong("it should begin beyond the end of the file".into()));
        }
        self.storage.read_at(member.header, &mut header)?;
        if !header.starts_with(MAGIC) {
            return Err(wrong(format!("it begins with {:02x?}, not with 'PK'", &header[..4])));
        }
        let [name_len, extra_len] =
            [[header[26], header[27]], [header[28], header[29]]].map(u16::from_le_bytes);
        let start = member.header + 30 + u64::from(name_len) + u64::from(extra_len);
        let end = start.checked_add(member.stored_len).filter(|&end| end <= self.storage.len());
        let end = end.ok_or_else(|| {
            wrong(format!("it should have {} bytes, beyond the end of the file", member.stored_len))
        })?;
        let most = if member.is_deflated() {
            member.stored_len.saturating_mul(MOST_PER_BYTE)
        } else {
            member.stored_len
        };
        if member.len > most || (!member.is_deflated() && member.len != member.stored_len) {
            return Err(wrong(format!(
                "{} bytes are said to decode to {}, which they cannot",
                member.stored_len, member.len
            )));
        }
        Ok(start..end)
    }

    /// Where the bytes of a member lie as they are, if it was only stored.
    ///
    /// # Errors
    /// As [`Archive::place`].
    pub(crate) fn in_place(&self, name: &str, member: Member) -> Result<Option<Range<u64>>> {
        let place = self.place(name, member)?;
        Ok((!member.is_deflated()).then_some(place))
    }

    /// Decodes a member of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Archive::place`]; `Limit` if it is larger; `BadFile` if it does not decode to its length.
    pub(crate) fn read(&self, name: &str, member: Member, limit: u64) -> Result<Vec<u8>> {
        let place = self.place(name, member)?;
        let len = usize::try_from(member.len).ok().filter(|_| member.len <= limit);
        let len = len.ok_or_else(|| {
            let error = Error::limit(format!(
                "'{name}' in the archive takes {} bytes when it is decoded, more than {limit}",
                member.len
            ));
            self.storage.locate(error.with_hint("save it without compression"))
        })?;
        let stored_len = usize::try_from(place.end - place.start).unwrap_or(usize::MAX);
        let mut out = vec![0; len];
        let done = if member.is_deflated() {
            let mut owned = Vec::new();
            let stored = match self.storage.bytes(place.clone()) {
                Some(bytes) => bytes,
                None => {
                    owned.resize(stored_len, 0);
                    self.storage.read_at(place.start, &mut owned)?;
                    owned.as_slice()
                }
            };
            libdeflater::Decompressor::new()
                .deflate_decompress(stored, &mut out)
                .map_err(|error| error.to_string())
        } else {
            self.storage.read_at(place.start, &mut out)?;
            Ok(len)
        };
        let why = match done {
            Ok(n) if n < len => format!("only {n} bytes came out"),
            Ok(_) if libdeflater::crc32(&out) != member.crc32 => {
                "its checksum is another one".into()
            }
            Ok(_) => return Ok(out),
            Err(why) => why,
        };
        let error = Error::bad_file(format!("'{name}' in the archive cannot be decoded: {why}"));
        let error = error.with_offset(place.start);
        Err(self.storage.locate(error.with_hint("the archive is damaged; copy it again")))
    }
}

/// Reads a storage from front to back.
struct Cursor {
    storage: Storage,
    at: u64,
}

impl Read for Cursor {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let left = self.storage.len().saturating_sub(self.at);
        let n = usize::try_from(left).map_or(out.len(), |left| left.min(out.len()));
        let out = out.get_mut(..n).unwrap_or_default();
        self.storage.read_at(self.at, out).map_err(IoError::other)?;
        self.at += u64::try_from(n).unwrap_or(0);
        Ok(n)
    }
}

impl Seek for Cursor {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.storage.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| IoError::from(IoKind::InvalidInput))?;
        Ok(self.at)
    }
}
