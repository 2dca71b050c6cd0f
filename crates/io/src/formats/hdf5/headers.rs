//! What the library does not tell of the headers that it reads, or reads wrongly.
//!
//! So headers are looked at on their way to it, and shown in words that it knows:
//!
//! - a virtual data set, which it refuses together with the group that holds it, is kept here and
//!   shown as one whose pixels lie in the header itself;
//! - of chunked data sets one flag is kept: whether chunks that reach beyond the array went through no
//!   filter;
//! - layouts of versions 1 and 2, whose address it looks for at the wrong byte, are shown in version 3;
//! - many links or attributes, which lie in a heap of their own, are shown as if the header went on
//!   with them, in a block behind the end of the file;
//! - complex numbers by themselves (since version 2.0 of the HDF5 library) are shown as records of two floats;
//! - attributes of such numbers, and those whose dtype is one with a name, for which it refuses all of a header, are
//!   left out;
//! - links have no `.` in their paths, and they, attributes and comments have texts in UTF-8 (`spelling.rs`), in
//!   messages and in the heaps of old groups.
//!
//! | version | block | messages |
//! |---|---|---|
//! | 2 | `OHDR` or `OCHK` … a checksum of 4 bytes | type 1, size 2, flags 1, 2 more if order is tracked |
//! | 1 | 16 bytes `01 00 …`, read before all of the header; further ones have no mark | type 2, size 2, flags 1, 3 |
//!
//! | layout | bytes |
//! |---|---|
//! | versions 1, 2 | version, number of sizes, class, 5 reserved, an address unless the class is 0, sizes of 4 bytes, then, if the class is 0, a length of 4 bytes and the pixels |
//! | version 3, class 0 | version, class, a length of 2 bytes, the pixels |
//! | version 3, class 1 | version, class, an address, a length |
//! | version 3, class 2 | version, class, number of sizes, an address, sizes of 4 bytes |

use super::dense::{Dense, Objects};
use super::spelling::{self, Names};
use crate::headers::fields::number;
use hdf5_reader::checksum::jenkins_lookup3;
use hdf5_reader::error::Error as LibraryError;
use hdf5_reader::io::Cursor;
use hdf5_reader::messages::{attribute_info, link_info};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const NOTHING: u16 = 0x0000;
const LINK_INFO: u16 = 0x0002;
const DATATYPE: u16 = 0x0003;
const LINK: u16 = 0x0006;
const LAYOUT: u16 = 0x0008;
const ATTRIBUTE: u16 = 0x000C;
const COMMENT: u16 = 0x000D;
const CONTINUATION: u16 = 0x0010;
const ATTRIBUTE_INFO: u16 = 0x0015;
/// The class of dtypes of complex numbers by themselves.
const COMPLEX: u8 = 11;
/// In the place of an index, for blocks with the dtype of a header.
const OF_COMPLEX: u64 = u64::MAX - 1;
/// Headers of a file of which something is kept.
const MOST_KEPT: usize = 100_000;

/// What was found in one header.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Note {
    /// Of a virtual data set: what follows the class of its layout, an address and a number.
    pub(super) mapping: Option<Vec<u8>>,
    /// Chunks that reach beyond the array are as they were written.
    pub(super) plain_edges: bool,
}

/// The headers of one file.
#[derive(Debug, Default)]
pub(super) struct Headers {
    state: Mutex<State>,
    file: Option<Dense>,
}

#[derive(Debug, Default)]
struct State {
    /// The header that is being read, and how its messages begin.
    current: u64,
    envelope: Envelope,
    /// Blocks of headers of version 1 that will be read: offset and length.
    expected: HashSet<(u64, usize)>,
    /// Texts of old groups that will be read, alike, and where the first piece is that is free of them.
    heaps: HashMap<(u64, usize), usize>,
    names: Names,
    notes: HashMap<u64, Note>,
    /// Blocks of messages behind the end of the file, and for which heap and index, or header and dtype, each was made.
    blocks: HashMap<u64, Arc<Vec<u8>>>,
    made: HashMap<(u64, u64, Envelope), Option<Block>>,
}

/// A block that was made: its address for the library, and its length.
#[derive(Clone, Copy, Debug)]
struct Block {
    address: u64,
    len: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Envelope {
    #[default]
    Version1,
    Version2 {
        ordered: bool,
    },
}

impl Headers {
    /// For the headers of that file.
    pub(super) fn of(file: Option<Dense>) -> Self {
        Headers { state: Mutex::default(), file }
    }

    /// What was found in the header at `address`.
    pub(super) fn note(&self, address: u64) -> Note {
        self.lock().notes.get(&address).cloned().unwrap_or_default()
    }

    /// How many bytes the file says that it has, if it has fewer.
    pub(super) fn cut_from(&self) -> Option<u64> {
        self.file.as_ref()?.cut_from()
    }

    /// The bytes that were made up at `offset`, behind the end of the file.
    pub(super) fn made(&self, offset: u64, len: usize) -> Option<Vec<u8>> {
        self.lock().blocks.get(&offset).filter(|block| block.len() == len).map(|b| b.to_vec())
    }

    /// Looks at bytes that the library reads at `offset`, and changes them where it could not go on.
    ///
    /// # Errors
    /// `ResourceLimit` if links or attributes of a few bytes, or what is kept, would become too many.
    pub(super) fn look(&self, offset: u64, bytes: &mut [u8]) -> Result<(), LibraryError> {
        let file = self.file.as_ref();
        // As headers are asked for, and as they say where they go on: behind what precedes the superblock.
        let Some(address) = offset.checked_sub(file.map_or(0, Dense::base)) else { return Ok(()) };
        let mut state = self.lock();
        if bytes.starts_with(b"OHDR") {
            let Some((start, end, ordered)) = first_block(bytes) else { return Ok(()) };
            state.current = address;
            state.envelope = Envelope::Version2 { ordered };
            state.checked_block(file, bytes, start, end)?;
        } else if bytes.starts_with(b"OCHK") {
            state.checked_block(file, bytes, 4, bytes.len().saturating_sub(4))?;
        } else if state.expected.remove(&(address, bytes.len())) {
            let prefix =
                if bytes.starts_with(&[1, 0]) && state.current == address { 16 } else { 0 };
            state.envelope = Envelope::Version1;
            if let Some(messages) = bytes.get_mut(prefix..) {
                state.messages(file, messages)?;
            }
        } else if bytes.starts_with(b"HEAP") {
            let (offsets, lengths) =
                file.map_or((8, 8), |file| (file.offset_width(), file.length_width()));
            let len = number(bytes, 8, lengths).and_then(|len| usize::try_from(len).ok());
            let free = number(bytes, 8 + lengths, lengths);
            let free = free.and_then(|free| usize::try_from(free).ok()).unwrap_or(1);
            let place = number(bytes, 8 + 2 * lengths, offsets).zip(len);
            state.heaps.extend(place.map(|place| (place, free)));
        } else if let Some(&free) = state.heaps.get(&(address, bytes.len())) {
            let width = file.map_or(8, Dense::length_width);
            spelling::of_heap(bytes, free, width, &mut state.names)?;
        } else if bytes.len() == 16 && bytes.starts_with(&[1, 0]) {
            let len = number(bytes, 8, 4).and_then(|len| usize::try_from(len).ok());
            if let Some(all) = len.and_then(|len| len.checked_add(16)) {
                state.current = address;
                state.expected.clear();
                state.expected.insert((address, all));
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of a header of version 2: where its messages begin and end, and whether their order is tracked.
fn first_block(bytes: &[u8]) -> Option<(usize, usize, bool)> {
    let flags = *bytes.get(5)?;
    let times = if flags & 0x20 != 0 { 16 } else { 0 };
    let phases = if flags & 0x10 != 0 { 4 } else { 0 };
    let at = 6 + times + phases;
    let width = 1 << (flags & 3);
    let len = usize::try_from(number(bytes, at, width)?).ok()?;
    let start = at + width;
    let end = start.checked_add(len)?;
    // Shorter reads are those that find out how long it is.
    (end.checked_add(4)? == bytes.len()).then_some((start, end, flags & 4 != 0))
}

impl State {
    /// A block of version 2, which is passed on with a checksum that fits.
    fn checked_block(
        &mut self,
        file: Option<&Dense>,
        bytes: &mut [u8],
        start: usize,
        end: usize,
    ) -> Result<(), LibraryError> {
        let (Some(covered), Some(stored)) = (bytes.get(..end), number(bytes, end, 4)) else {
            return Ok(());
        };
        if u64::from(jenkins_lookup3(covered)) != stored {
            return Ok(());
        }
        let Some(messages) = bytes.get_mut(start..end) else { return Ok(()) };
        if self.messages(file, messages)? {
            let checksum = bytes.get(..end).map_or(0, jenkins_lookup3).to_le_bytes();
            if let Some(stored) = bytes.get_mut(end..end + 4) {
                stored.copy_from_slice(&checksum);
            }
        }
        Ok(())
    }

    /// Goes through messages; whether one of them was changed.
    fn messages(&mut self, file: Option<&Dense>, bytes: &mut [u8]) -> Result<bool, LibraryError> {
        let (head, type_len) = match self.envelope {
            Envelope::Version1 => (8, 2),
            Envelope::Version2 { ordered } => (if ordered { 6 } else { 4 }, 1),
        };
        let (mut at, mut changed) = (0, false);
        while let (Some(kind), Some(len)) =
            (number(bytes, at, type_len), number(bytes, at + type_len, 2))
        {
            let start = at + head;
            let Some(end) = usize::try_from(len).ok().and_then(|len| start.checked_add(len)) else {
                break;
            };
            let shared = bytes.get(at + type_len + 2).is_some_and(|flags| flags & 2 != 0);
            let Some(message) = bytes.get_mut(start..end) else { break };
            let kind = u16::try_from(kind).unwrap_or(NOTHING);
            let shown_as = match kind {
                _ if shared => None,
                LAYOUT => self.layout(file, message)?,
                DATATYPE => self.complex(file, message),
                LINK_INFO | ATTRIBUTE_INFO => self.heap(file, kind, message)?,
                ATTRIBUTE if is_refused(message) => Some(NOTHING),
                ATTRIBUTE if spelling::of_attribute(message) => Some(ATTRIBUTE),
                LINK if spelling::of_link(message, &mut self.names)? => Some(LINK),
                COMMENT if spelling::in_ascii(message) => Some(COMMENT),
                CONTINUATION if self.envelope == Envelope::Version1 => {
                    self.expect(message);
                    None
                }
                _ => None,
            };
            if let Some(shown_as) = shown_as {
                changed = true;
                let kind = bytes.get_mut(at..at + type_len).unwrap_or_default();
                kind.iter_mut().zip(shown_as.to_le_bytes()).for_each(|(to, byte)| *to = byte);
            }
            at = end;
        }
        Ok(changed)
    }

    /// A block that follows; offsets and lengths may be of 2, 4 or 8 bytes.
    fn expect(&mut self, message: &[u8]) {
        for width in [8, 4, 2] {
            let (offset, len) = (number(message, 0, width), number(message, width, width));
            if let (Some(offset), Some(Ok(len))) = (offset, len.map(usize::try_from)) {
                self.expected.insert((offset, len));
            }
        }
    }

    /// The type as which the message is shown, if it was changed.
    fn layout(
        &mut self,
        file: Option<&Dense>,
        message: &mut [u8],
    ) -> Result<Option<u16>, LibraryError> {
        let &mut [version, class, ..] = message else { return Ok(None) };
        if version < 3 {
            // Without pixels rather than with those from elsewhere.
            let shown = file.and_then(|file| version_3(message, file));
            return Ok(Some(if shown.is_some() { LAYOUT } else { NOTHING }));
        }
        if version == 3 {
            return Ok(None);
        }
        let rest = message.get_mut(2..).unwrap_or_default();
        match class {
            2 if rest.first().is_some_and(|flags| flags & 1 != 0) => {
                self.keep()?.plain_edges = true;
                Ok(None)
            }
            3 => {
                let len = rest.len().checked_sub(2).and_then(|len| u16::try_from(len).ok());
                let Some(len) = len else { return Ok(None) };
                self.keep()?.mapping = Some(rest.to_vec());
                rest.iter_mut().zip(len.to_le_bytes()).for_each(|(to, byte)| *to = byte);
                message.get_mut(1).into_iter().for_each(|class| *class = 0);
                Ok(Some(LAYOUT))
            }
            _ => Ok(None),
        }
    }

    /// Links or attributes in a heap; the message becomes one that the header goes on elsewhere.
    fn heap(
        &mut self,
        file: Option<&Dense>,
        kind: u16,
        message: &mut [u8],
    ) -> Result<Option<u16>, LibraryError> {
        let Some(file) = file else { return Ok(None) };
        let widths = [file.offset_width(), file.length_width()];
        let widths = widths.map(|width| u8::try_from(width).unwrap_or(8));
        let mut cursor = Cursor::new(message);
        let place = if kind == LINK_INFO {
            link_info::parse(&mut cursor, widths[0], widths[1], message.len())
                .map(|info| (info.fractal_heap_address, info.btree_name_index_address))
        } else {
            attribute_info::parse(&mut cursor, widths[0], widths[1], message.len())
                .map(|info| (info.fractal_heap_address, info.btree_name_index_address))
        };
        let Ok((heap, index)) = place else { return Ok(None) };
        let key = (heap, index, self.envelope);
        let block = match self.made.get(&key) {
            Some(block) => *block,
            None => {
                let mut objects = match file.objects(heap, index) {
                    Ok(objects) => objects,
                    Err(error @ LibraryError::ResourceLimit(_)) => return Err(error),
                    // The library says what is wrong, once it is asked for.
                    Err(_) => None,
                };
                let kind = if kind == LINK_INFO { LINK } else { ATTRIBUTE };
                for (_, object) in objects.iter_mut().flat_map(|objects| &mut objects.objects) {
                    _ = match kind {
                        LINK => spelling::of_link(object, &mut self.names)?,
                        _ => spelling::of_attribute(object),
                    };
                }
                let bytes = objects.and_then(|objects| self.envelope.block(kind, &objects));
                self.make(file, key, bytes)
            }
        };
        Ok(go_on(file, block, message))
    }

    /// A complex number, which is shown as a record of two floats.
    fn complex(&mut self, file: Option<&Dense>, message: &mut [u8]) -> Option<u16> {
        let (file, record) = (file?, record_of_complex(message)?);
        let key = (self.current, OF_COMPLEX, self.envelope);
        let block = match self.made.get(&key) {
            Some(block) => *block,
            None => {
                let objects = Objects { objects: vec![(0, record)], deep: false };
                let bytes = self.envelope.block(DATATYPE, &objects);
                self.make(file, key, bytes)
            }
        };
        go_on(file, block, message)
    }

    /// Keeps a block that was made.
    fn make(
        &mut self,
        file: &Dense,
        key: (u64, u64, Envelope),
        bytes: Option<Vec<u8>>,
    ) -> Option<Block> {
        let place = file.behind(self.blocks.len());
        let block = bytes.zip(place).map(|(bytes, (address, position))| {
            let block = Block { address, len: bytes.len() };
            self.blocks.insert(position, Arc::new(bytes));
            block
        });
        self.made.insert(key, block);
        block
    }

    /// What is kept of the header; other pixels would be read if it were lost.
    fn keep(&mut self) -> Result<&mut Note, LibraryError> {
        if self.notes.len() >= MOST_KEPT && !self.notes.contains_key(&self.current) {
            return Err(LibraryError::ResourceLimit(format!(
                "more than {MOST_KEPT} data sets of the file are virtual, or have chunks at their \
                 edges that went through no filter"
            )));
        }
        Ok(self.notes.entry(self.current).or_default())
    }
}

impl Envelope {
    /// Messages of one type, as a block with which a header goes on; `None` if not all of them fit into
    /// one each, and the library can find them.
    fn block(self, kind: u16, objects: &Objects) -> Option<Vec<u8>> {
        let mut block = vec![];
        if matches!(self, Envelope::Version2 { .. }) {
            block.extend(b"OCHK");
        }
        for (order, object) in &objects.objects {
            if kind == ATTRIBUTE && is_refused(object) {
                continue;
            }
            let padded = match self {
                Envelope::Version1 => object.len().next_multiple_of(8),
                Envelope::Version2 { .. } => object.len(),
            };
            let Ok(len) = u16::try_from(padded) else {
                if objects.deep {
                    continue;
                }
                return None;
            };
            let [kind, zero] = kind.to_le_bytes();
            let [low, high] = len.to_le_bytes();
            match self {
                Envelope::Version1 => block.extend([kind, zero, low, high, 0, 0, 0, 0]),
                Envelope::Version2 { ordered } => {
                    block.extend([kind, low, high, 0]);
                    if ordered {
                        block.extend(order.to_le_bytes().get(..2).unwrap_or_default());
                    }
                }
            }
            block.extend(object);
            block.resize(block.len() + padded - object.len(), 0);
        }
        if matches!(self, Envelope::Version2 { .. }) {
            block.extend(jenkins_lookup3(&block).to_le_bytes());
        }
        Some(block)
    }
}

/// Makes of a message one that the header goes on in that block.
fn go_on(file: &Dense, block: Option<Block>, message: &mut [u8]) -> Option<u16> {
    let Block { address, len } = block?;
    let (offsets, lengths) = (file.offset_width(), file.length_width());
    let len = u64::try_from(len).unwrap_or(u64::MAX).to_le_bytes();
    let shown = message.get_mut(..offsets + lengths)?;
    shown.fill(0);
    let (shown_address, shown_len) = shown.split_at_mut(offsets);
    shown_address.iter_mut().zip(address.to_le_bytes()).for_each(|(to, byte)| *to = byte);
    shown_len.iter_mut().zip(len).for_each(|(to, byte)| *to = byte);
    Some(CONTINUATION)
}

/// The dtype of a record of two of the floats that a complex number is made of, as h5py has it.
fn record_of_complex(message: &[u8]) -> Option<Vec<u8>> {
    const FLOAT_BYTES: usize = 20;
    let size = message.get(4..8).filter(|_| dtype_class(message) == Some(COMPLEX))?;
    let part = message.get(8..8 + FLOAT_BYTES).filter(|part| dtype_class(part) == Some(1))?;
    let half = u8::try_from(number(size, 0, 4)? / 2).ok()?;
    Some([&[0x36, 2, 0, 0][..], size, b"r\0\0", part, b"i\0", &[half], part].concat())
}

fn dtype_class(dtype: &[u8]) -> Option<u8> {
    dtype.first().map(|first| first & 15)
}

/// Writes a layout of version 1 or 2 as one of version 3, which is shorter.
fn version_3(message: &mut [u8], file: &Dense) -> Option<()> {
    let (offsets, lengths) = (file.offset_width(), file.length_width());
    let (count, class) = (*message.get(1)?, *message.get(2)?);
    let n = usize::from(count);
    let mut shown = vec![3, class];
    match class {
        0 => {
            let at = 8 + 4 * n;
            let len = usize::try_from(number(message, at, 4)?).ok()?;
            shown.extend(u16::try_from(len).ok()?.to_le_bytes());
            shown.extend(message.get(at + 4..at.checked_add(4)?.checked_add(len)?)?);
        }
        1 => {
            shown.extend(message.get(8..8 + offsets)?);
            let mut sizes = (0..n).map(|i| number(message, 8 + offsets + 4 * i, 4));
            let len = sizes.try_fold(1u64, |len, size| Some(len.saturating_mul(size?)))?;
            shown.extend(len.to_le_bytes().get(..lengths)?);
        }
        2 => {
            shown.push(count);
            shown.extend(message.get(8..8 + offsets + 4 * n)?);
        }
        _ => return None,
    }
    message.get_mut(..shown.len())?.copy_from_slice(&shown);
    Some(())
}

/// Whether the dtype or the shape of an attribute is kept elsewhere, or it is a complex number by itself.
fn is_refused(attribute: &[u8]) -> bool {
    let name = number(attribute, 2, 2).and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
    let dtype = match *attribute {
        [1, ..] => 8 + name.next_multiple_of(8),
        [2 | 3, flags, ..] if flags & 3 != 0 => return true,
        [2, ..] => 8 + name,
        [3, ..] => 9 + name,
        _ => return false,
    };
    attribute.get(dtype..).and_then(dtype_class) == Some(COMPLEX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIRTUAL: [u8; 14] = [4, 3, 0x10, 0x20, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0];

    fn version_2(kind: u8, message: &[u8]) -> Vec<u8> {
        let mut bytes = b"OHDR\x02\x00".to_vec();
        bytes.push(u8::try_from(message.len() + 4).unwrap());
        bytes.extend([kind, u8::try_from(message.len()).unwrap(), 0, 0]);
        bytes.extend(message);
        bytes.extend(jenkins_lookup3(&bytes).to_le_bytes());
        bytes
    }

    #[test]
    fn a_virtual_layout_is_kept_and_shown_as_a_compact_one() {
        let headers = Headers::default();
        let mut bytes = version_2(8, &VIRTUAL);
        headers.look(77, &mut bytes).unwrap();
        assert_eq!(headers.note(77).mapping.unwrap(), VIRTUAL[2..]);
        assert_eq!(bytes[11..15], [4, 0, 10, 0]);
        let (covered, checksum) = bytes.split_at(bytes.len() - 4);
        assert_eq!(jenkins_lookup3(covered).to_le_bytes(), checksum);
    }

    #[test]
    fn what_is_damaged_or_something_else_is_passed_on_as_it_is() {
        let headers = Headers::default();
        let mut damaged = version_2(8, &VIRTUAL);
        damaged[12] ^= 4;
        for bytes in [damaged, version_2(9, &VIRTUAL), version_2(8, &[3; 14]), b"OHDR".to_vec()] {
            let mut seen = bytes.clone();
            headers.look(5, &mut seen).unwrap();
            assert_eq!(seen, bytes);
            assert_eq!(headers.note(5), Note::default());
        }
    }

    #[test]
    fn headers_of_version_1_in_several_blocks() {
        let headers = Headers::default();
        let message = |kind: u8, payload: &[u8]| {
            [&[kind, 0, u8::try_from(payload.len()).unwrap(), 0, 0, 0, 0, 0], payload].concat()
        };
        let further: Vec<u8> = message(8, &[&VIRTUAL[..], &[0, 0]].concat());
        let mut link = 500u64.to_le_bytes().to_vec();
        link.extend(u64::try_from(further.len()).unwrap().to_le_bytes());
        let mut header = vec![1, 0, 1, 0, 1, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0];
        headers.look(100, &mut header.clone()).unwrap();
        header.extend(message(16, &link));
        headers.look(100, &mut header.clone()).unwrap();
        let mut seen = further.clone();
        headers.look(500, &mut seen).unwrap();
        assert_eq!(seen[8..12], [4, 0, 12, 0]);
        assert_eq!(headers.note(100).mapping.unwrap()[..12], VIRTUAL[2..]);
        // The same bytes elsewhere are something else.
        let mut seen = further.clone();
        headers.look(900, &mut seen).unwrap();
        assert_eq!(seen, further);
    }

    #[test]
    fn nothing_that_was_kept_is_lost_where_there_is_too_much() {
        let headers = Headers::default();
        let header = version_2(8, &VIRTUAL);
        for address in 0..MOST_KEPT as u64 {
            headers.look(address, &mut header.clone()).unwrap();
        }
        let error = headers.look(MOST_KEPT as u64, &mut header.clone()).unwrap_err();
        assert!(matches!(error, LibraryError::ResourceLimit(_)), "{error}");
        headers.look(0, &mut header.clone()).unwrap();
        assert!(headers.note(0).mapping.is_some());
    }

    #[test]
    fn the_flag_of_unfiltered_edges() {
        let headers = Headers::default();
        headers.look(1, &mut version_2(8, &[4, 2, 1, 2, 1])).unwrap();
        headers.look(2, &mut version_2(8, &[4, 2, 0, 2, 1])).unwrap();
        assert!(headers.note(1).plain_edges && !headers.note(2).plain_edges);
    }
}
