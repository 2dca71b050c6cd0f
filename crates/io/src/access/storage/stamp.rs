//! Whether a file is still the one that was opened.
//!
//! One rule: a file is the same if device, inode, length and time of change are, or if all that
//! happened is that it grew, with the same first bytes, and the same ones where it ended. What another system sees has no device and
//! inode to compare: there the first bytes have to be the same, and the time counts in seconds, as
//! copies keep no more of it. A file whose time alone has changed counts as another one, as only
//! reading all of it could show that it is the same; so does one that was written to in place.

use framefold_core::{Error, FilePlace, FileStamp, Result};
use std::cell::Cell;
use std::fs::{File, Metadata};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

/// Does some work, in which data sets are opened that were opened first at that time.
pub(crate) fn seen_at<T>(seen_ns: Option<i128>, work: impl FnOnce() -> T) -> T {
    let before = SEEN.replace(seen_ns);
    let done = work();
    SEEN.set(before);
    done
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
        has_chunks: false,
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
pub(crate) fn digest(bytes: impl AsRef<[u8]>) -> u64 {
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

/// How long a write may take between the time of change and the length that it sets, in milliseconds:
/// when to look again.
const LOOKS: [u64; 4] = [0, 1, 4, 16];

/// What the file is once a write has ended that makes it longer, and has set its time of change alone.
fn settled(
    was: &FileStamp,
    mut now: FileStamp,
    mut look: impl FnMut() -> Option<FileStamp>,
) -> FileStamp {
    for wait in LOOKS {
        let same_place = now.place.is_some() && now.place == was.place;
        if !same_place || now.len != was.len || now.modified_ns == was.modified_ns {
            break;
        }
        std::thread::sleep(Duration::from_millis(wait));
        let Some(next) = look() else { break };
        now = next;
    }
    now
}

/// With the ends of as many bytes as there were, if the file has grown.
pub(crate) fn as_long(path: &Path, was: &FileStamp, now: FileStamp) -> FileStamp {
    as_long_of(was, now, || std::fs::metadata(path), || File::open(path))
}

/// The same of a file that these look at and open.
fn as_long_of(
    was: &FileStamp,
    now: FileStamp,
    look: impl Fn() -> std::io::Result<Metadata>,
    open: impl Fn() -> std::io::Result<File>,
) -> FileStamp {
    let now = settled(was, now, || Some(of_meta(&look().ok()?)));
    if now.len <= was.len || was.head.is_none() {
        return now;
    }
    // What cannot be read is nothing that was there.
    let ends = open().map(|file| with_ends_at(&file, was.len, now));
    ends.unwrap_or(FileStamp { head: Some(0), ..now })
}

/// Confirms that there was no write to a file that is as long as when it was opened, or longer.
pub(super) fn not_rewritten(path: &Path, was: &FileStamp, present: &Metadata) -> Result<()> {
    compare(path, was, &as_long(path, was, of_meta(present)))
}

/// The same of an open file, whatever became of its name.
pub(super) fn open_not_rewritten(
    path: &Path,
    file: &File,
    was: &FileStamp,
    present: &Metadata,
) -> Result<()> {
    let now = as_long_of(was, of_meta(present), || file.metadata(), || file.try_clone());
    compare(path, was, &now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_that_have_not_set_the_length_yet_are_waited_for() {
        let place = Some(FilePlace { system: 1, device: 2, inode: 3 });
        let was = FileStamp {
            len: 100,
            modified_ns: Some(5),
            place,
            seen_ns: 9,
            head: Some(1),
            tail: Some(2),
            has_chunks: false,
        };
        let written = FileStamp { modified_ns: Some(7), ..was };
        let grown = FileStamp { len: 120, ..written };
        let elsewhere = FileStamp { place: None, ..written };
        for (now, looks, expected, n_looks) in [
            (written, vec![written, grown], grown, 2),
            (written, vec![written; 9], written, LOOKS.len()),
            (was, vec![grown], was, 0),
            (grown, vec![was], grown, 0),
            (elsewhere, vec![grown], elsewhere, 0),
            (written, vec![], written, 1),
        ] {
            let (mut looks, mut n) = (looks.into_iter(), 0);
            let found = settled(&was, now, || {
                n += 1;
                looks.next()
            });
            assert_eq!((found, n), (expected, n_looks));
        }
    }
}
