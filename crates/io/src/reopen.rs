//! Data sets that are looked at again, here or in other processes: whether their files are the same.

use crate::access::storage::stamp::{self, as_long, compare, of_meta};
use crate::formats::zarr;
use framefold_core::{Dataset, Error, FilePlace, FileStamp, Result};
use std::path::Path;

/// Confirms that no file of a data set was replaced or written to since it was opened.
///
/// A file that was deleted is not missed: what is open lives on. A file that has grown is the same.
///
/// # Errors
/// `BadFile` that names the file.
pub fn check_unchanged(dataset: &Dataset) -> Result<()> {
    for (path, was) in dataset.opened().iter().zip(dataset.stamps()) {
        let Ok(meta) = std::fs::metadata(path) else { continue };
        compare(path, was, &as_long(path, was, of_meta(&meta)))?;
    }
    Ok(())
}

/// Opens a data set again that was opened before, according to what [`pack`] said about it.
pub fn open_again<T>(packed: &[u8], open: impl FnOnce() -> T) -> T {
    stamp::seen_at(unpack(packed).map(|stamp| stamp.seen_ns), open)
}

/// What the files of a data set were when they were opened, as bytes for [`check_same`].
pub fn pack(dataset: &Dataset) -> Vec<u8> {
    let mut packed = Vec::new();
    let opens_later = opens_later(dataset);
    let chunks = of_chunks(dataset);
    let files = dataset.stamps().iter().map(|stamp| (stamp, 0));
    for (stamp, kind) in files.chain(chunks.iter().map(|(_, stamp)| (stamp, OF_CHUNKS))) {
        let place = stamp.place;
        let flags = u8::from(stamp.modified_ns.is_some())
            | u8::from(place.is_some()) << 1
            | u8::from(stamp.head.is_some()) << 2
            | u8::from(stamp.tail.is_some()) << 3
            | kind;
        packed.push(flags);
        packed.extend(stamp.len.to_le_bytes());
        packed.extend(stamp.modified_ns.unwrap_or(0).to_le_bytes());
        packed.extend(place.map_or(0, |place| place.system).to_le_bytes());
        packed.extend(place.map_or(0, |place| place.device).to_le_bytes());
        packed.extend(place.map_or(0, |place| place.inode).to_le_bytes());
        packed.extend(if opens_later { stamp.seen_ns } else { 0 }.to_le_bytes());
        packed.extend(stamp.head.unwrap_or(0).to_le_bytes());
        packed.extend(stamp.tail.unwrap_or(0).to_le_bytes());
    }
    packed
}

/// Marks the stamp of the files of an array that are opened by name while the data set is read.
const OF_CHUNKS: u8 = 1 << 4;
/// Where there may be more of them together, those of the last arrays are not looked at.
const MOST_FILES: u64 = 1 << 20;

/// The folder of each array whose chunks are files, and one stamp for all of them: how many there are,
/// and digests of what they are, if they were looked at: `head` for other systems, `tail` for this one.
fn of_chunks(dataset: &Dataset) -> Vec<(&Path, FileStamp)> {
    let mut most = MOST_FILES;
    let files = dataset.opened().iter().zip(dataset.stamps()).filter(|(_, stamp)| stamp.has_chunks);
    let stamped = files.filter_map(|(path, stamp)| {
        let folder = path.parent()?;
        let found = zarr::chunk_files(folder, most);
        most -= found.map_or(0, |found| found.n_places);
        let len = found.map_or(0, |found| found.n);
        let head = found.map(|found| found.of_seconds);
        let tail = found.map(|found| found.of_nanoseconds);
        Some((folder, FileStamp { len, modified_ns: None, head, tail, ..*stamp }))
    });
    stamped.collect()
}

/// Confirms that a data set has the chunks that it had when it was opened elsewhere or earlier; and
/// maybe more, if it `may_grow`.
fn check_chunks(dataset: &Dataset, were: &[FileStamp], may_grow: bool) -> Result<()> {
    let mut pairs = of_chunks(dataset).into_iter().zip(were);
    pairs.try_for_each(|((folder, now), was)| compare_chunks(folder, was, &now, may_grow))
}

fn compare_chunks(folder: &Path, was: &FileStamp, now: &FileStamp, may_grow: bool) -> Result<()> {
    let system = |stamp: &FileStamp| stamp.place.map(|place| place.system);
    let here = system(was).is_some() && system(was) == system(now);
    // Earlier versions noted seconds alone.
    let exact = if here { was.tail.zip(now.tail) } else { None };
    let pair = exact.or_else(|| was.head.zip(now.head));
    let Some((known, found)) = pair else { return Ok(()) };
    let grown = may_grow && now.len > was.len;
    if grown || (now.len, found) == (was.len, known) {
        return Ok(());
    }
    let error = Error::bad_file(if now.len != was.len {
        format!(
            "there are {} files of chunks, and {} where the data set was opened",
            now.len, was.len
        )
    } else {
        "files of chunks are not the same as where the data set was opened: they have other sizes, \
         or were changed at another time (copies have to keep that)"
            .to_owned()
    });
    let hint = "see that all files are there, and open the data set again";
    Err(error.with_hint(hint).with_path(folder))
}

/// Whether files are opened by name while the data set is read. For all others it does not matter
/// when they were opened, and processes that have the same files open need not open them again.
fn opens_later(dataset: &Dataset) -> bool {
    dataset.stamps().iter().any(|stamp| stamp.has_chunks)
}

/// How many bytes one stamp is.
const STAMP_LEN: usize = 1 + 8 + 16 + 8 + 8 + 8 + 16 + 8 + 8;

/// Confirms that a data set is made of the same files as the one that [`pack`] was asked about,
/// wherever that was opened, for a run of which both are a part.
///
/// # Errors
/// `BadFile` that names the first file that is another one.
pub fn check_same(dataset: &Dataset, packed: &[u8]) -> Result<()> {
    let system = |stamp: &FileStamp| stamp.place.map(|place| place.system);
    let were = check_files(dataset, packed)?;
    // On the same system, they are in the same folder.
    let here = were.first().and_then(system) == dataset.stamps().first().and_then(system);
    if here { Ok(()) } else { check_chunks(dataset, &were, true) }
}

/// Confirms the same of a data set that was opened for an earlier run, whatever may have happened
/// since, also to files that are opened by name while it is read.
///
/// # Errors
/// `BadFile` that names the first file that is another one.
pub fn check_same_since(dataset: &Dataset, packed: &[u8]) -> Result<()> {
    check_chunks(dataset, &check_files(dataset, packed)?, false)
}

/// Compares the files that are opened with the data set; gives what the chunks of its arrays were.
fn check_files(dataset: &Dataset, packed: &[u8]) -> Result<Vec<FileStamp>> {
    let is_of_file = |stamp: &&[u8]| stamp.first().is_some_and(|flags| flags & OF_CHUNKS == 0);
    let (files, chunks): (Vec<&[u8]>, Vec<&[u8]>) = packed.chunks(STAMP_LEN).partition(is_of_file);
    let stamps: Vec<FileStamp> = files.into_iter().filter_map(unpack).collect();
    for ((path, now), was) in dataset.opened().iter().zip(dataset.stamps()).zip(&stamps) {
        compare(path, was, &as_long(path, was, *now))?;
    }
    if stamps.len() == dataset.stamps().len() {
        return Ok(chunks.into_iter().filter_map(unpack).collect());
    }
    let error = Error::bad_file(format!(
        "the data set was made of {} files when it was opened, and is made of {} now",
        stamps.len(),
        dataset.stamps().len()
    ));
    Err(match dataset.opened().first() {
        Some(path) => error.with_path(path),
        None => error,
    })
}

fn unpack(bytes: &[u8]) -> Option<FileStamp> {
    let (&flags, rest) = bytes.split_first()?;
    let (len, rest) = rest.split_first_chunk()?;
    let (modified, rest) = rest.split_first_chunk()?;
    let (system, rest) = rest.split_first_chunk()?;
    let (device, rest) = rest.split_first_chunk()?;
    let (inode, rest) = rest.split_first_chunk()?;
    let (seen, rest) = rest.split_first_chunk()?;
    let (head, rest) = rest.split_first_chunk()?;
    let (tail, _) = rest.split_first_chunk()?;
    let place = FilePlace {
        system: u64::from_le_bytes(*system),
        device: u64::from_le_bytes(*device),
        inode: u64::from_le_bytes(*inode),
    };
    Some(FileStamp {
        len: u64::from_le_bytes(*len),
        modified_ns: (flags & 1 != 0).then(|| i128::from_le_bytes(*modified)),
        place: (flags & 2 != 0).then_some(place),
        seen_ns: i128::from_le_bytes(*seen),
        head: (flags & 4 != 0).then(|| u64::from_le_bytes(*head)),
        tail: (flags & 8 != 0).then(|| u64::from_le_bytes(*tail)),
        has_chunks: flags & OF_CHUNKS != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_core::FilePlace;

    #[test]
    fn chunks_are_compared_with_stamps_of_seconds_alone() {
        let place = FilePlace { system: 1, device: 2, inode: 3 };
        let now = FileStamp {
            len: 4,
            modified_ns: None,
            place: Some(place),
            seen_ns: 0,
            head: Some(5),
            tail: Some(6),
            has_chunks: true,
        };
        let compare = |was: FileStamp| compare_chunks(Path::new("a.zarr"), &was, &now, false);
        let earlier = FileStamp { tail: None, ..now };
        assert!(compare(now).is_ok() && compare(earlier).is_ok());
        assert!(compare(FileStamp { tail: Some(7), ..now }).is_err());
        assert!(compare(FileStamp { head: Some(7), ..earlier }).is_err());
    }
}
