//! Whether a file is still the one that was opened.
//!
//! One rule: a file is the same if device, inode, length and time of change are, or if all that
//! happened is that it grew, with the same first bytes, and the same ones where it ended. What another system sees has no device and
//! inode to compare: there the first bytes have to be the same, and the time counts in seconds, as
//! copies keep no more of it. A file whose time alone has changed counts as another one, as only
//! reading all of it could show that it is the same; so does one that was written to in place.

use framefold_core::{Dataset, Error, FilePlace, FileStamp, Result};
use std::cell::Cell;
use std::fs::{File, Metadata};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// So many of the first and of the last bytes are looked at.
const END_LEN: usize = 4096;

/// What the file is now.
pub(super) fn of(file: &File, meta: &Metadata, with_ends: bool) -> FileStamp {
    let stamp = of_meta(meta);
    if with_ends && !is_being_written(file) {
        return with_ends_at(file, stamp.len, stamp);
    }
    stamp
}

/// Whether an HDF5 file says that it is being written for readers who look on (SWMR): its first
/// bytes, and its last ones, are to change when it grows, while what they can read stays.
fn is_being_written(file: &File) -> bool {
    const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";
    const LOOKED_ON: u8 = 4;
    let mut start = [0; 12];
    let known = read_at(file, &mut start, 0).is_ok_and(|n| n == start.len());
    let [signature @ .., version, _, _, flags] = start;
    known && signature == SIGNATURE && version >= 3 && flags & LOOKED_ON != 0
}

/// The same, with digests of the ends of the first `len` bytes.
fn with_ends_at(file: &File, len: u64, stamp: FileStamp) -> FileStamp {
    let most = usize::try_from(len).map_or(END_LEN, |len| len.min(END_LEN));
    let start = len.saturating_sub(u64::try_from(most).unwrap_or(len));
    FileStamp { head: piece(file, 0, most), tail: piece(file, start, most), ..stamp }
}

thread_local! {
    /// When the data sets that this thread opens were opened first, elsewhere.
    static SEEN: Cell<Option<i128>> = const { Cell::new(None) };
}

/// Opens a data set again that was opened before, according to what [`pack`] said about it.
pub fn open_again<T>(packed: &[u8], open: impl FnOnce() -> T) -> T {
    let before = SEEN.replace(unpack(packed).map(|stamp| stamp.seen_ns));
    let opened = open();
    SEEN.set(before);
    opened
}

/// When what is being opened was opened first: now, unless it is opened again.
pub(crate) fn seen() -> i128 {
    SEEN.get().or_else(|| nanoseconds(SystemTime::now())).unwrap_or(i128::MAX)
}

/// The time in nanoseconds since 1970.
pub(crate) fn nanoseconds(time: SystemTime) -> Option<i128> {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i128::try_from(after.as_nanos()).ok(),
        Err(before) => i128::try_from(before.duration().as_nanos()).ok().map(|ns| -ns),
    }
}

pub(crate) fn of_meta(meta: &Metadata) -> FileStamp {
    FileStamp {
        len: meta.len(),
        modified_ns: meta.modified().ok().and_then(nanoseconds),
        place: place(meta),
        seen_ns: seen(),
        head: None,
        tail: None,
    }
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems have none")]
fn place(meta: &Metadata) -> Option<FilePlace> {
    let (device, inode) = super::identity(meta);
    Some(FilePlace { system: system(), device, inode })
}

#[cfg(not(unix))]
fn place(_: &Metadata) -> Option<FilePlace> {
    None
}

/// Tells apart what may see other devices and inodes under the same paths: machines, times that
/// they were started, and containers.
#[cfg_attr(not(unix), expect(dead_code, reason = "there are no inodes"))]
fn system() -> u64 {
    static SYSTEM: OnceLock<u64> = OnceLock::new();
    *SYSTEM.get_or_init(|| {
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let mounts = std::fs::read_link("/proc/self/ns/mnt").unwrap_or_default();
        let name = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
        digest([boot.as_slice(), mounts.as_os_str().as_encoded_bytes(), name.as_slice()].concat())
    })
}

/// A digest of at most so many bytes.
fn piece(file: &File, start: u64, most: usize) -> Option<u64> {
    let mut bytes = vec![0; most];
    let mut n = 0;
    while let Some(rest) = bytes.get_mut(n..).filter(|rest| !rest.is_empty()) {
        match read_at(file, rest, start + u64::try_from(n).unwrap_or(0)) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    bytes.truncate(n);
    Some(digest(bytes))
}

#[cfg(unix)]
fn read_at(file: &File, out: &mut [u8], offset: u64) -> std::io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, out, offset)
}

#[cfg(windows)]
fn read_at(file: &File, out: &mut [u8], offset: u64) -> std::io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, out, offset)
}

/// FNV-1a: the same on every machine.
fn digest(bytes: impl AsRef<[u8]>) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.as_ref().iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Confirms that the file at `path`, which is `now`, is the one that it `was`.
///
/// # Errors
/// `BadFile` that names the file and what has changed.
pub(crate) fn compare(path: &Path, was: &FileStamp, now: &FileStamp) -> Result<()> {
    let refuse = |what: String| {
        Err(Error::bad_file(what).with_path(path).with_hint(
            "open it again to use what it holds now; do not replace or change files in use",
        ))
    };
    let systems = (was.place, now.place);
    let here = matches!(systems, (Some(was), Some(now)) if was.system == now.system);
    if here && was.place != now.place {
        return refuse("another file took its place since it was opened".to_owned());
    }
    let heads = was.head.zip(now.head).map(|(was, now)| was == now);
    let tails = was.tail.zip(now.tail).map(|(was, now)| was == now);
    if now.len > was.len && heads.unwrap_or(here) && tails.unwrap_or(true) {
        return Ok(());
    }
    if now.len != was.len {
        return refuse(format!(
            "it was {} bytes long when it was opened and is {} bytes long now",
            was.len, now.len
        ));
    }
    let seconds = |ns: i128| if here { ns } else { ns.div_euclid(1_000_000_000) };
    let times = was.modified_ns.zip(now.modified_ns);
    if times.is_some_and(|(was, now)| seconds(was) != seconds(now)) {
        return refuse(if here {
            "it was written to, or its time of change was set, since it was opened".to_owned()
        } else {
            "it is not the same file as where the data set was opened: it was changed at another \
             time (copies have to keep that)"
                .to_owned()
        });
    }
    match heads {
        Some(false) => refuse("its first bytes have changed since it was opened".to_owned()),
        _ => Ok(()),
    }
}

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

/// With the ends of as many bytes as there were, if the file has grown.
fn as_long(path: &Path, was: &FileStamp, now: FileStamp) -> FileStamp {
    if now.len <= was.len || was.head.is_none() {
        return now;
    }
    // What cannot be read is nothing that was there.
    let ends = File::open(path).map(|file| with_ends_at(&file, was.len, now));
    ends.unwrap_or(FileStamp { head: Some(0), ..now })
}

/// Confirms that there was no write to a file that is as long as when it was opened, or longer.
pub(super) fn not_rewritten(path: &Path, was: &FileStamp, present: &Metadata) -> Result<()> {
    compare(path, was, &as_long(path, was, of_meta(present)))
}

/// What the files of a data set were when they were opened, as bytes for [`check_same`].
pub fn pack(dataset: &Dataset) -> Vec<u8> {
    let mut packed = Vec::new();
    let opens_later = opens_later(dataset);
    for stamp in dataset.stamps() {
        let place = stamp.place;
        let flags = u8::from(stamp.modified_ns.is_some())
            | u8::from(place.is_some()) << 1
            | u8::from(stamp.head.is_some()) << 2
            | u8::from(stamp.tail.is_some()) << 3;
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

/// Whether files are opened by name while the data set is read. For all others it does not matter
/// when they were opened, and processes that have the same files open need not open them again.
fn opens_later(dataset: &Dataset) -> bool {
    dataset.source().info().format == crate::zarr::FORMAT.name
}

/// How many bytes one stamp is.
const STAMP_LEN: usize = 1 + 8 + 16 + 8 + 8 + 8 + 16 + 8 + 8;

/// Confirms that a data set is made of the same files as the one that [`pack`] was asked about,
/// wherever that was opened.
///
/// # Errors
/// `BadFile` that names the first file that is another one.
pub fn check_same(dataset: &Dataset, packed: &[u8]) -> Result<()> {
    let stamps: Vec<FileStamp> = packed.chunks(STAMP_LEN).filter_map(unpack).collect();
    for ((path, now), was) in dataset.opened().iter().zip(dataset.stamps()).zip(&stamps) {
        compare(path, was, &as_long(path, was, *now))?;
    }
    if stamps.len() == dataset.stamps().len() {
        return Ok(());
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
    })
}
