//! What the library does not tell of the headers that it reads.
//!
//! It knows nothing of virtual data sets, and refuses all of a header with one. So headers are
//! looked at on their way to it: a message that a data set is virtual is kept, and the library is
//! shown a data set whose pixels lie in the header itself. From chunked data sets, one flag is
//! kept: whether chunks that reach beyond the array went through no filter.
//!
//! | version | block | messages |
//! |---|---|---|
//! | 2 | `OHDR` or `OCHK` … a checksum of 4 bytes | type 1, size 2, flags 1, 2 more if order is tracked |
//! | 1 | 16 bytes `01 00 …`, read before all of the header; further ones have no mark | type 2, size 2, flags 1, 3 |

use hdf5_reader::checksum::jenkins_lookup3;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

const LAYOUT: u16 = 0x0008;
const CONTINUATION: u16 = 0x0010;
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
}

#[derive(Debug, Default)]
struct State {
    /// The header that is being read, and how its messages begin.
    current: u64,
    envelope: Envelope,
    /// Blocks of headers of version 1 that will be read: offset and length.
    expected: HashSet<(u64, usize)>,
    notes: HashMap<u64, Note>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Envelope {
    #[default]
    Version1,
    Version2 {
        ordered: bool,
    },
}

impl Headers {
    /// What was found in the header at `address`.
    pub(super) fn note(&self, address: u64) -> Note {
        self.lock().notes.get(&address).cloned().unwrap_or_default()
    }

    /// Looks at bytes that the library reads at `offset`, and changes them where it could not go on.
    pub(super) fn look(&self, offset: u64, bytes: &mut [u8]) {
        let mut state = self.lock();
        if bytes.starts_with(b"OHDR") {
            let Some((start, end, ordered)) = first_block(bytes) else { return };
            state.current = offset;
            state.envelope = Envelope::Version2 { ordered };
            state.checked_block(bytes, start, end);
        } else if bytes.starts_with(b"OCHK") {
            state.checked_block(bytes, 4, bytes.len().saturating_sub(4));
        } else if state.expected.remove(&(offset, bytes.len())) {
            let prefix = if bytes.starts_with(&[1, 0]) && state.current == offset { 16 } else { 0 };
            state.envelope = Envelope::Version1;
            if let Some(messages) = bytes.get_mut(prefix..) {
                state.messages(messages);
            }
        } else if bytes.len() == 16 && bytes.starts_with(&[1, 0]) {
            let len = number(bytes, 8, 4).and_then(|len| usize::try_from(len).ok());
            if let Some(all) = len.and_then(|len| len.checked_add(16)) {
                state.current = offset;
                state.expected.clear();
                state.expected.insert((offset, all));
            }
        }
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
    fn checked_block(&mut self, bytes: &mut [u8], start: usize, end: usize) {
        let (Some(covered), Some(stored)) = (bytes.get(..end), number(bytes, end, 4)) else {
            return;
        };
        if u64::from(jenkins_lookup3(covered)) != stored {
            return;
        }
        let Some(messages) = bytes.get_mut(start..end) else { return };
        if self.messages(messages) {
            let checksum = bytes.get(..end).map_or(0, jenkins_lookup3).to_le_bytes();
            if let Some(stored) = bytes.get_mut(end..end + 4) {
                stored.copy_from_slice(&checksum);
            }
        }
    }

    /// Goes through messages; whether one of them was changed.
    fn messages(&mut self, bytes: &mut [u8]) -> bool {
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
            if kind == u64::from(LAYOUT) && !shared {
                changed |= self.layout(message);
            } else if kind == u64::from(CONTINUATION) && matches!(self.envelope, Envelope::Version1)
            {
                self.expect(message);
            }
            at = end;
        }
        changed
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

    /// Whether the message was changed.
    fn layout(&mut self, message: &mut [u8]) -> bool {
        let [version, class, rest @ ..] = &mut *message else { return false };
        if *version < 4 {
            return false;
        }
        match *class {
            2 if rest.first().is_some_and(|flags| flags & 1 != 0) => {
                self.keep().plain_edges = true;
                false
            }
            3 => {
                let Some(len) = rest.len().checked_sub(2).and_then(|len| u16::try_from(len).ok())
                else {
                    return false;
                };
                self.keep().mapping = Some(rest.to_vec());
                *class = 0;
                rest.iter_mut().zip(len.to_le_bytes()).for_each(|(to, byte)| *to = byte);
                true
            }
            _ => false,
        }
    }

    fn keep(&mut self) -> &mut Note {
        if self.notes.len() >= MOST_KEPT {
            self.notes.clear();
        }
        self.notes.entry(self.current).or_default()
    }
}

/// A number of `width` bytes, little endian.
pub(super) fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    Some(bytes.iter().rev().fold(0, |number, &byte| (number << 8) | u64::from(byte)))
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
        headers.look(77, &mut bytes);
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
            headers.look(5, &mut seen);
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
        headers.look(100, &mut header.clone());
        header.extend(message(16, &link));
        headers.look(100, &mut header.clone());
        let mut seen = further.clone();
        headers.look(500, &mut seen);
        assert_eq!(seen[8..12], [4, 0, 12, 0]);
        assert_eq!(headers.note(100).mapping.unwrap()[..12], VIRTUAL[2..]);
        // The same bytes elsewhere are something else.
        let mut seen = further.clone();
        headers.look(900, &mut seen);
        assert_eq!(seen, further);
    }

    #[test]
    fn the_flag_of_unfiltered_edges() {
        let headers = Headers::default();
        headers.look(1, &mut version_2(8, &[4, 2, 1, 2, 1]));
        headers.look(2, &mut version_2(8, &[4, 2, 0, 2, 1]));
        assert!(headers.note(1).plain_edges && !headers.note(2).plain_edges);
    }
}
