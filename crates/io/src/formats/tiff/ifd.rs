//! The header of a TIFF file, and its chain of image file directories.

use crate::access::Storage;
use crate::headers::fields::Fields;
use framefold_core::{Error, Result, memory};
use std::collections::HashSet;

/// More entries than any program writes into one directory.
const MOST_ENTRIES: u64 = 1 << 16;
/// Longer texts are cut.
const LONGEST_TEXT: u64 = 64 << 20;

/// The numbers of the tags that are looked at.
pub(super) mod tag {
    pub(in crate::formats::tiff) const SUBFILE_TYPE: u16 = 254;
    pub(in crate::formats::tiff) const WIDTH: u16 = 256;
    pub(in crate::formats::tiff) const HEIGHT: u16 = 257;
    pub(in crate::formats::tiff) const BITS: u16 = 258;
    pub(in crate::formats::tiff) const COMPRESSION: u16 = 259;
    pub(in crate::formats::tiff) const PHOTOMETRIC: u16 = 262;
    pub(in crate::formats::tiff) const FILL_ORDER: u16 = 266;
    pub(in crate::formats::tiff) const DESCRIPTION: u16 = 270;
    pub(in crate::formats::tiff) const MAKE: u16 = 271;
    pub(in crate::formats::tiff) const STRIP_OFFSETS: u16 = 273;
    pub(in crate::formats::tiff) const SAMPLES: u16 = 277;
    pub(in crate::formats::tiff) const ROWS_PER_STRIP: u16 = 278;
    pub(in crate::formats::tiff) const STRIP_BYTES: u16 = 279;
    pub(in crate::formats::tiff) const X_RESOLUTION: u16 = 282;
    pub(in crate::formats::tiff) const Y_RESOLUTION: u16 = 283;
    pub(in crate::formats::tiff) const PLANAR: u16 = 284;
    pub(in crate::formats::tiff) const RESOLUTION_UNIT: u16 = 296;
    pub(in crate::formats::tiff) const SOFTWARE: u16 = 305;
    pub(in crate::formats::tiff) const DATE_TIME: u16 = 306;
    pub(in crate::formats::tiff) const PREDICTOR: u16 = 317;
    pub(in crate::formats::tiff) const TILE_WIDTH: u16 = 322;
    pub(in crate::formats::tiff) const TILE_HEIGHT: u16 = 323;
    pub(in crate::formats::tiff) const TILE_OFFSETS: u16 = 324;
    pub(in crate::formats::tiff) const TILE_BYTES: u16 = 325;
    pub(in crate::formats::tiff) const SAMPLE_FORMAT: u16 = 339;
    pub(in crate::formats::tiff) const SUBSAMPLING: u16 = 530;
    pub(in crate::formats::tiff) const DEPTH: u16 = 32997;
    pub(in crate::formats::tiff) const TILE_DEPTH: u16 = 32998;
    pub(in crate::formats::tiff) const METAMORPH: u16 = 33628;
    pub(in crate::formats::tiff) const METAMORPH_PLANES: u16 = 33629;
}

/// How numbers are stored in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flavour {
    pub(super) big_endian: bool,
    /// Offsets of 64 bits.
    pub(super) is_big: bool,
}

/// What the first bytes say: the flavour, and where the offset of the first directory is.
pub(super) fn signature(bytes: &[u8]) -> Option<Flavour> {
    let (is_big, big_endian) = match bytes.get(..4)? {
        b"II*\0" => (false, false),
        b"MM\0*" => (false, true),
        b"II+\0" => (true, false),
        b"MM\0+" => (true, true),
        _ => return None,
    };
    Some(Flavour { big_endian, is_big })
}

/// Numbers somewhere in the file, each of the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    at: u64,
    /// Bytes of each.
    size: u8,
    pub(super) count: u64,
}

impl Numbers {
    /// The `i`-th of them.
    ///
    /// # Errors
    /// `BadFile` if there are not so many; `Io`.
    pub(super) fn get(self, storage: &Storage, flavour: Flavour, i: u64) -> Result<u64> {
        let place = i.checked_mul(u64::from(self.size)).and_then(|n| n.checked_add(self.at));
        let Some(place) = place.filter(|_| i < self.count) else {
            return Err(storage.locate(
                Error::bad_file(format!("there are {} numbers, not {}", self.count, i + 1))
                    .with_offset(self.at)
                    .with_hint("the file is damaged; copy it again"),
            ));
        };
        let mut bytes = [0; 8];
        let size = usize::from(self.size);
        storage.read_at(place, bytes.get_mut(..size).unwrap_or_default())?;
        let fields = Fields::new(&bytes, flavour.big_endian);
        Ok(number(&fields, self.size, 0).unwrap_or(0))
    }

    /// All of them at once. They lie within the file, so that they are no more than it has bytes.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn all(self, storage: &Storage, flavour: Flavour) -> Result<Vec<u64>> {
        let len = usize::try_from(self.len_bytes()).map_err(|_| Error::limit("too many strips"))?;
        let mut bytes = vec![0; len];
        storage.read_at(self.at, &mut bytes)?;
        let fields = Fields::new(&bytes, flavour.big_endian);
        let size = usize::from(self.size);
        Ok((0..len / size.max(1)).filter_map(|i| number(&fields, self.size, i * size)).collect())
    }

    /// The bytes that they take.
    pub(super) fn len_bytes(self) -> u64 {
        self.count.saturating_mul(u64::from(self.size))
    }
}

fn number(fields: &Fields<'_>, size: u8, at: usize) -> Option<u64> {
    match size {
        1 => fields.u8(at).map(u64::from),
        2 => fields.u16(at).map(u64::from),
        4 => fields.u32(at).map(u64::from),
        _ => fields.i64(at).map(i64::cast_unsigned),
    }
}

/// One entry of a directory; its value lies within the file.
#[derive(Clone, Copy, Debug)]
struct Entry {
    tag: u16,
    kind: u16,
    count: u64,
    at: u64,
}

/// The tags of one page.
pub(super) struct Directory<'s> {
    storage: &'s Storage,
    flavour: Flavour,
    entries: Vec<Entry>,
    /// Where it begins.
    pub(super) at: u64,
}

impl Directory<'_> {
    /// The whole numbers of a tag, if it is there.
    ///
    /// # Errors
    /// `BadFile` if they are none.
    pub(super) fn numbers(&self, tag: u16) -> Result<Option<Numbers>> {
        let Some(entry) = self.entries.iter().find(|entry| entry.tag == tag) else {
            return Ok(None);
        };
        let size = match entry.kind {
            1 => 1,
            3 => 2,
            4 | 13 => 4,
            16 | 18 => 8,
            other => {
                return Err(self.wrong(format!(
                    "tag {tag} holds values of type {other}, expected whole numbers"
                )));
            }
        };
        Ok(Some(Numbers { at: entry.at, size, count: entry.count }))
    }

    /// How many values a tag has, if it is there.
    pub(super) fn count_of(&self, tag: u16) -> Option<u64> {
        Some(self.entries.iter().find(|entry| entry.tag == tag)?.count)
    }

    /// The first whole number of a tag, if it is there.
    pub(super) fn number(&self, tag: u16) -> Result<Option<u64>> {
        let numbers = self.numbers(tag)?.filter(|numbers| numbers.count > 0);
        numbers.map(|numbers| numbers.get(self.storage, self.flavour, 0)).transpose()
    }

    /// Whether all numbers of a tag are the same.
    pub(super) fn all_equal(&self, tag: u16) -> Result<bool> {
        let Some(numbers) = self.numbers(tag)? else { return Ok(true) };
        let first = self.number(tag)?;
        for i in 1..numbers.count.min(MOST_ENTRIES) {
            if Some(numbers.get(self.storage, self.flavour, i)?) != first {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The text of a tag, or nothing.
    pub(super) fn text(&self, tag: u16) -> Option<String> {
        let text = |entry: &&Entry| entry.tag == tag && matches!(entry.kind, 1 | 2 | 7);
        let entry = self.entries.iter().find(text)?;
        let len = usize::try_from(entry.count.min(LONGEST_TEXT)).ok()?;
        let mut bytes = vec![0; len];
        self.storage.read_at(entry.at, &mut bytes).ok()?;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(len);
        let bytes = bytes.get(..end)?;
        // ImageJ writes Latin-1, others UTF-8.
        Some(match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().copied().map(char::from).collect(),
        })
    }

    /// The first fraction of a tag, or nothing.
    pub(super) fn fraction(&self, tag: u16) -> Option<f64> {
        let entry = self.entries.iter().find(|e| e.tag == tag && e.kind == 5 && e.count > 0)?;
        let mut bytes = [0; 8];
        self.storage.read_at(entry.at, &mut bytes).ok()?;
        let fields = Fields::new(&bytes, self.flavour.big_endian);
        Some(f64::from(fields.u32(0)?) / f64::from(fields.u32(4)?))
    }

    /// The first float of a tag, or nothing.
    pub(super) fn float(&self, tag: u16) -> Option<f64> {
        let wanted = |e: &&Entry| e.tag == tag && matches!(e.kind, 11 | 12) && e.count > 0;
        let entry = self.entries.iter().find(wanted)?;
        let mut bytes = [0; 8];
        let len = if entry.kind == 11 { 4 } else { 8 };
        self.storage.read_at(entry.at, bytes.get_mut(..len)?).ok()?;
        let fields = Fields::new(&bytes, self.flavour.big_endian);
        if entry.kind == 11 { fields.f32(0).map(f64::from) } else { fields.f64(0) }
    }

    /// At most `most` bytes of a structure, or nothing: those that the tag holds, or, if it holds one whole
    /// number alone, those at that place in the file: none, if it is beyond the end.
    pub(super) fn structure(&self, tag: u16, most: usize) -> Option<Vec<u8>> {
        let entry = self.entries.iter().find(|entry| entry.tag == tag)?;
        let (at, len) = match (entry.kind, entry.count) {
            (4 | 13, 1) => {
                let at = self.number(tag).ok()??.min(self.storage.len());
                (at, self.storage.len() - at)
            }
            (kind, count) => (entry.at, count.checked_mul(width(kind))?),
        };
        self.bytes_at(at, usize::try_from(len).unwrap_or(most).min(most))
    }

    /// So many bytes at a place in the file, or nothing if they are not all there.
    pub(super) fn bytes_at(&self, at: u64, len: usize) -> Option<Vec<u8>> {
        let end = at.checked_add(u64::try_from(len).ok()?)?;
        if end > self.storage.len() {
            return None;
        }
        let mut bytes = memory::zeros(len).ok()?;
        self.storage.read_at(at, &mut bytes).ok()?;
        Some(bytes)
    }

    /// The first place from `start` on where the directory or a value of it is, or else the end of the file.
    pub(super) fn start_behind(&self, start: u64) -> u64 {
        let own = self.entries.iter().map(|entry| entry.at).chain([self.at]);
        own.filter(|&at| at >= start).min().unwrap_or(self.storage.len()).max(start)
    }

    pub(super) fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// The error for what cannot be read.
    pub(super) fn unsupported(&self, what: impl Into<String>) -> Error {
        self.storage.locate(Error::unsupported(what).with_offset(self.at))
    }

    /// The error for a directory that makes no sense.
    pub(super) fn wrong(&self, what: impl Into<String>) -> Error {
        self.storage.locate(
            Error::bad_file(what)
                .with_offset(self.at)
                .with_hint("the file is damaged, or not a TIFF file; copy it again"),
        )
    }
}

/// Calls `each` for every directory of the main chain, in order, and says why the chain ends before
/// its end, if it does.
///
/// # Errors
/// Those of `each`; `BadFile` if there is not one directory, or the chain leads back to itself;
/// `Unsupported` for BigTIFF with offsets of another size than 8.
pub(super) fn walk(
    storage: &Storage,
    mut each: impl FnMut(&Directory<'_>) -> Result<()>,
) -> Result<(Flavour, Option<String>)> {
    let mut start = [0; 16];
    let present = start.len().min(usize::try_from(storage.len()).unwrap_or(usize::MAX));
    storage.read_at(0, start.get_mut(..present).unwrap_or_default())?;
    let damaged = |what: String, at: u64| {
        let error = Error::bad_file(what).with_offset(at);
        storage.locate(error.with_hint("the file is cut short or damaged; copy it again"))
    };
    let Some(flavour) = signature(&start) else {
        return Err(damaged(
            format!(
                "it starts with bytes {:02x?}, not with 'II' or 'MM' and 42 or 43",
                &start[..4]
            ),
            0,
        ));
    };
    let fields = Fields::new(&start, flavour.big_endian);
    let needed = if flavour.is_big { 16 } else { 8 };
    if present < needed {
        return Err(damaged(format!("the header takes {needed} bytes, {present} are there"), 0));
    }
    if flavour.is_big && (fields.u16(4), fields.u16(6)) != (Some(8), Some(0)) {
        return Err(storage.locate(
            Error::unsupported(format!(
                "offsets are of {} bytes, expected 8",
                fields.u16(4).unwrap_or(0)
            ))
            .with_offset(4),
        ));
    }
    let first = if flavour.is_big {
        fields.i64(8).map(i64::cast_unsigned)
    } else {
        fields.u32(4).map(u64::from)
    };
    let mut at = first.unwrap_or(0);
    let mut seen = HashSet::new();
    let mut bytes_seen = 0u64;
    let mut cut = None;
    while at != 0 {
        if !seen.insert(at) {
            return Err(damaged(format!("page {} leads back to an earlier one", seen.len()), at));
        }
        match directory(storage, flavour, at) {
            Ok((directory, next, len)) => {
                // Directories that overlap could be read for ever.
                bytes_seen = bytes_seen.saturating_add(len);
                if bytes_seen > storage.len() {
                    return Err(damaged("directories of pages overlap".into(), at));
                }
                each(&directory)?;
                at = next;
            }
            Err(error) if seen.len() > 1 => {
                cut = Some(format!(
                    "the file ends after {} pages, although it promises more: {}",
                    seen.len() - 1,
                    error.message()
                ));
                break;
            }
            Err(error) => return Err(error),
        }
    }
    if seen.is_empty() {
        return Err(damaged("there is no page".into(), if flavour.is_big { 8 } else { 4 }));
    }
    Ok((flavour, cut))
}

/// The bytes of a value of that type, or 0.
fn width(kind: u16) -> u64 {
    match kind {
        1 | 2 | 6 | 7 => 1,
        3 | 8 => 2,
        4 | 9 | 11 | 13 => 4,
        5 | 10 | 12 | 16 | 17 | 18 => 8,
        _ => 0,
    }
}

/// Reads one directory: itself, the offset of the next one, and its length in bytes.
fn directory(storage: &Storage, flavour: Flavour, at: u64) -> Result<(Directory<'_>, u64, u64)> {
    let Flavour { big_endian, is_big } = flavour;
    let (head, size, tail) = if is_big { (8, 20, 8) } else { (2, 12, 4) };
    let short = || {
        let error = Error::bad_file(format!(
            "the directory of a page at byte {at} does not fit into {} bytes",
            storage.len()
        ));
        storage.locate(
            error.with_offset(at).with_hint("the file is cut short or damaged; copy it again"),
        )
    };
    let available = storage.len().checked_sub(at).ok_or_else(short)?;
    let mut count = [0; 8];
    if available < head {
        return Err(short());
    }
    storage.read_at(at, count.get_mut(..if is_big { 8 } else { 2 }).unwrap_or_default())?;
    let fields = Fields::new(&count, big_endian);
    let n =
        if is_big { fields.i64(0).map(i64::cast_unsigned) } else { fields.u16(0).map(u64::from) };
    let n = n.unwrap_or(0);
    let len = n.checked_mul(size).and_then(|len| len.checked_add(head + tail));
    let len = len.filter(|&len| len <= available && n <= MOST_ENTRIES).ok_or_else(short)?;
    let mut bytes = vec![0; usize::try_from(len - head).unwrap_or(0)];
    storage.read_at(at + head, &mut bytes)?;
    let fields = Fields::new(&bytes, big_endian);
    let mut entries = Vec::with_capacity(usize::try_from(n).unwrap_or(0));
    let step = usize::try_from(size).unwrap_or(0);
    let wide = |place| {
        if is_big {
            fields.i64(place).map(i64::cast_unsigned)
        } else {
            fields.u32(place).map(u64::from)
        }
    };
    let mut place = 0;
    for _ in 0..n {
        let value = place + if is_big { 12 } else { 8 };
        if let (Some(tag), Some(kind), Some(count)) =
            (fields.u16(place), fields.u16(place + 2), wide(place + 4))
        {
            let width = width(kind);
            let inline = count.checked_mul(width).is_some_and(|len| len <= tail);
            let offset = if inline {
                at.checked_add(head + u64::try_from(value).unwrap_or(0))
            } else {
                wide(value)
            };
            let end = count.checked_mul(width).and_then(|len| len.checked_add(offset?));
            // What leaves the file is of no use; if it is needed, it will be missed.
            if let (Some(offset), true) = (offset, end.is_some_and(|end| end <= storage.len())) {
                entries.push(Entry { tag, kind, count, at: offset });
            }
        }
        place += step;
    }
    let next = wide(place).unwrap_or(0);
    Ok((Directory { storage, flavour, entries, at }, next, len))
}
