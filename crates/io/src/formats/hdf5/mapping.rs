//! What a virtual data set is made of: a list in the file, of parts of other data sets.
//!
//! | what | bytes |
//! |---|---|
//! | version, 0 or 1 | 1 |
//! | number of entries | as lengths in this file |
//! | for each, in version 1: where its names are | 1 |
//! | name of a file, name of a data set | text ended by a zero byte; or the number of an earlier entry that has it, as lengths |
//! | what is taken of it, where it is shown | two selections |
//! | checksum | 4 |
//!
//! The first of the bits in version 1 says that the file is that of an earlier entry, the second one
//! that the data set is, the third one that the file is the one that the list is in, whose name is left
//! out. In version 0 that file is called `.`. In names, `%b` is the number of a block, and `%%` is
//! a percent sign.

use super::failures::translate;
use super::library::Opened;
use super::selection::Selection;
use crate::headers::fields::number;
use framefold_core::{Error, Result};
use hdf5_reader::checksum::jenkins_lookup3;
use hdf5_reader::global_heap::GlobalHeapCollection;

/// The bytes of all names together; few bytes of the file may repeat long ones.
const MOST_NAMES_BYTES: usize = 128 << 20;

/// One entry of the list.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) file: String,
    pub(super) dataset: String,
    /// What is taken.
    pub(super) taken: Selection,
    /// Where it is shown.
    pub(super) shown: Selection,
}

impl Entry {
    /// Whether its names count blocks.
    pub(super) fn counts(&self) -> bool {
        [&self.file, &self.dataset].into_iter().any(|name| name.replace("%%", "").contains("%b"))
    }

    /// The names of file and data set, for a block of that number.
    pub(super) fn names(&self, block: u64) -> (String, String) {
        let spell = |name: &str| {
            let parts: Vec<String> =
                name.split("%%").map(|part| part.replace("%b", &block.to_string())).collect();
            parts.join("%")
        };
        (spell(&self.file), spell(&self.dataset))
    }
}

/// Reads the list that a layout refers to, which is empty if there is none; `layout` is an address, and a
/// number there.
///
/// # Errors
/// `BadFile` if it is not there or makes no sense, `Unsupported` if it is of another kind.
pub(super) fn read(owner: &Opened, layout: &[u8]) -> Result<Vec<Entry>> {
    let superblock = owner.file.superblock();
    let width = usize::from(superblock.offset_size);
    let place = number(layout, 0, width).zip(number(layout, width, 4));
    let Some((address, index)) = place else {
        return Err(Error::bad_file("a virtual data set does not say what it is made of"));
    };
    if owner.is_nowhere(address) {
        return Ok(vec![]);
    }
    let heap = GlobalHeapCollection::parse_at_storage(
        owner.file.storage(),
        address,
        superblock.offset_size,
        superblock.length_size,
    )
    .map_err(|error| translate(&error))?;
    let object = u16::try_from(index).ok().and_then(|index| heap.get_object(index));
    let Some(object) = object else {
        return Err(Error::bad_file(format!(
            "the list of what a virtual data set is made of is not there (number {index})"
        ))
        .with_offset(address.saturating_add(owner.base())));
    };
    parse(&object.data, usize::from(superblock.length_size))
        .map_err(|error| error.with_offset(address.saturating_add(owner.base())))
}

fn parse(bytes: &[u8], width: usize) -> Result<Vec<Entry>> {
    let damaged = || {
        Error::bad_file("the list of what a virtual data set is made of is damaged")
            .with_hint("copy the file again")
    };
    let version = number(bytes, 0, 1).ok_or_else(damaged)?;
    if version > 1 {
        return Err(Error::unsupported(format!(
            "the virtual data set is described in version {version} of the format, of which 0 and \
             1 are known"
        ))
        .with_hint("rewrite it with h5repack"));
    }
    let n_entries = number(bytes, 1, width).ok_or_else(damaged)?;
    let mut at = 1 + width;
    let mut entries: Vec<Entry> = vec![];
    let mut names_bytes = 0usize;
    // The first name that is not UTF-8.
    let mut foreign: Option<String> = None;
    for _ in 0..n_entries {
        let flags = if version == 1 { number(bytes, at, 1).ok_or_else(damaged)? } else { 0 };
        at += usize::from(version == 1);
        let earlier = |at: &mut usize| {
            let number = usize::try_from(number(bytes, *at, width)?).ok()?;
            *at += width;
            entries.get(number)
        };
        let mut text = |at: &mut usize| {
            let rest = bytes.get(*at..)?;
            let len = rest.iter().position(|&byte| byte == 0)?;
            *at += len + 1;
            let name = rest.get(..len)?;
            let text = String::from_utf8_lossy(name).into_owned();
            if text.as_bytes() != name {
                foreign.get_or_insert_with(|| text.clone());
            }
            Some(text)
        };
        let file = match flags {
            _ if flags & 4 != 0 => Some(".".to_owned()),
            _ if flags & 1 != 0 => earlier(&mut at).map(|entry| entry.file.clone()),
            _ => text(&mut at),
        };
        let dataset = match flags & 2 {
            0 => text(&mut at),
            _ => earlier(&mut at).map(|entry| entry.dataset.clone()),
        };
        let (file, dataset) = file.zip(dataset).ok_or_else(damaged)?;
        names_bytes = names_bytes.saturating_add(file.len()).saturating_add(dataset.len());
        if names_bytes > MOST_NAMES_BYTES {
            return Err(Error::limit("a virtual data set is made of too many parts"));
        }
        let mut selection = || {
            let (selection, len) = Selection::parse(bytes.get(at..).unwrap_or_default())?;
            at += len;
            Ok::<_, Error>(selection)
        };
        let (taken, shown) = (selection()?, selection()?);
        entries.push(Entry { file, dataset, taken, shown });
    }
    let covered = bytes.get(..at).ok_or_else(damaged)?;
    if number(bytes, at, 4) != Some(u64::from(jenkins_lookup3(covered))) {
        return Err(damaged());
    }
    match foreign {
        None => Ok(entries),
        Some(name) => Err(Error::unsupported(format!(
            "a virtual data set is made of '{name}', whose name is not UTF-8"
        ))
        .with_hint("open what it is made of, one by one")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> Vec<u8> {
        let all: Vec<u8> = [3u32, 1, 0, 0].into_iter().flat_map(u32::to_le_bytes).collect();
        let mut bytes = vec![0];
        bytes.extend(1u64.to_le_bytes());
        bytes.extend(b"part_%b.h5\0data\0");
        bytes.extend(all.iter().chain(&all));
        bytes.extend(jenkins_lookup3(&bytes).to_le_bytes());
        bytes
    }

    #[test]
    fn a_list_and_what_is_left_of_it() {
        let bytes = stored();
        let entries = parse(&bytes, 8).unwrap();
        let [entry] = entries.as_slice() else { panic!("{entries:?}") };
        assert_eq!((entry.file.as_str(), entry.dataset.as_str()), ("part_%b.h5", "data"));
        assert_eq!((&entry.taken, &entry.shown), (&Selection::All, &Selection::All));
        for cut in 0..bytes.len() {
            assert!(parse(&bytes[..cut], 8).is_err(), "{cut}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(parse(&damaged, 8).is_err(), "{at}");
        }
    }

    #[test]
    fn names_that_are_not_utf_8_are_no_damage() {
        let mut bytes = stored();
        let at = bytes.iter().position(|&byte| byte == b'p').unwrap();
        bytes[at] = 0xE9;
        let end = bytes.len() - 4;
        assert!(parse(&bytes, 8).unwrap_err().message().contains("damaged"));
        let checksum = jenkins_lookup3(&bytes[..end]).to_le_bytes();
        bytes[end..].copy_from_slice(&checksum);
        let error = parse(&bytes, 8).unwrap_err();
        assert!(error.message().contains("whose name is not UTF-8"), "{error}");
    }

    #[test]
    fn names_that_an_earlier_entry_has() {
        let all: Vec<u8> = [3u32, 1, 0, 0].into_iter().flat_map(u32::to_le_bytes).collect();
        let all = [all.as_slice(), &all].concat();
        let mut bytes = vec![1, 3, 0, 0, 0];
        for names in [&b"\x00a.h5\0x\0"[..], b"\x03\0\0\0\0\0\0\0\0", b"\x06\x01\0\0\0"] {
            bytes.extend(names.iter().chain(&all));
        }
        bytes.extend(jenkins_lookup3(&bytes).to_le_bytes());
        let names: Vec<_> =
            parse(&bytes, 4).unwrap().into_iter().map(|e| (e.file, e.dataset)).collect();
        let expected = [("a.h5", "x"), ("a.h5", "x"), (".", "x")];
        assert_eq!(names, expected.map(|(file, dataset)| (file.into(), dataset.into())));
        for cut in 0..bytes.len() {
            assert!(parse(&bytes[..cut], 4).is_err(), "{cut}");
        }
    }

    #[test]
    fn names_that_count() {
        let entry = |file: &str| Entry {
            file: file.into(),
            dataset: "x".into(),
            taken: Selection::All,
            shown: Selection::All,
        };
        assert_eq!(entry("a%b_%b").names(12).0, "a12_12");
        assert_eq!(entry("100%%b").names(12).0, "100%b");
        assert!(entry("a%b").counts() && !entry("a%%b").counts() && !entry("a").counts());
    }
}
