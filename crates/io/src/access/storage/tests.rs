//! Files that change while they are open, and things that are not files.

use super::*;
use framefold_core::ErrorKind;
use std::fs::OpenOptions as FileOptions;
use std::path::PathBuf;

const BACKENDS: [Backend; 2] = [Backend::Mmap, Backend::Buffered];

fn file_of(dir: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join("data.bin");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn set_len(path: &Path, len: u64) {
    FileOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

#[test]
fn both_backends_read_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..20_000u32).map(|i| (i % 251) as u8).collect();
    let path = file_of(&dir, &bytes);
    for backend in BACKENDS {
        let storage = Storage::open(&path, backend).unwrap();
        assert_eq!(storage.len(), 20_000);
        assert_eq!(storage.path(), Some(path.as_path()));
        let mut out = vec![0; 9_000];
        storage.read_at(11_000, &mut out).unwrap();
        assert_eq!(out, bytes[11_000..]);
        for offset in [11_001, 20_001, u64::MAX] {
            let error = storage.read_at(offset, &mut out).unwrap_err();
            assert_eq!((error.kind(), error.offset()), (ErrorKind::BadFile, Some(offset)));
        }
        storage.verify().unwrap();
    }
    let mapped = Storage::open(&path, Backend::Mmap).unwrap();
    assert_eq!(mapped.bytes(5..8).unwrap(), &bytes[5..8]);
    assert!(mapped.bytes(19_999..20_001).is_none());
    assert!(mapped.bytes(u64::MAX - 1..u64::MAX).is_none());
    assert!(Storage::open(&path, Backend::Buffered).unwrap().bytes(0..1).is_none());
}

/// Takes a file out of the system's cache; false if it stays there.
#[cfg(target_os = "linux")]
fn forget(path: &Path) -> bool {
    use std::os::fd::AsRawFd;
    let file = FileOptions::new().write(true).open(path).unwrap();
    file.sync_all().unwrap();
    // SAFETY: advice on a file that is open.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) == 0 }
}

#[test]
#[cfg(target_os = "linux")]
fn what_will_be_needed_is_read_ahead() {
    const LEN: u64 = 64 << 20;
    let dir = tempfile::tempdir_in(".").unwrap();
    let path = file_of(&dir, &vec![1; LEN as usize]);
    let forgotten = forget(&path);
    let storage = Storage::open(&path, Backend::Mmap).unwrap();
    storage.prepare().unwrap();
    let part = storage.part(LEN / 4..LEN);
    let cached =
        |at: u64| mapped::is_cached(storage.bytes(0..LEN).unwrap(), usize::try_from(at).unwrap());
    let places = [LEN / 2 - 1, LEN / 2, LEN / 2 + (2 << 20) - 1];
    if !forgotten || places.iter().any(|&at| cached(at)) {
        println!("skipped: the file system keeps files in memory");
        return;
    }
    part.will_need(LEN / 4..LEN / 4 + (2 << 20));
    let begin = std::time::Instant::now();
    while !(cached(places[1]) && cached(places[2])) {
        assert!(begin.elapsed().as_secs() < 60, "nothing was read");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(!cached(places[0]) && !cached(LEN - 1));
    storage.will_need(LEN..u64::MAX);
}

#[test]
fn memory_looks_like_a_file() {
    let storage = Storage::shared(Arc::new(vec![1u8, 2, 3, 4]));
    let mut out = [0; 2];
    storage.read_at(1, &mut out).unwrap();
    assert_eq!((out, storage.bytes(2..4).unwrap()), ([2, 3], &[3, 4][..]));
    assert!(storage.path().is_none() && storage.lends());
    assert_eq!(storage.read_at(3, &mut out).unwrap_err().kind(), ErrorKind::BadFile);
}

#[test]
fn empty_files_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = file_of(&dir, &[]);
    for backend in BACKENDS {
        let storage = Storage::open(&path, backend).unwrap();
        assert!(storage.is_empty());
        storage.read_at(0, &mut []).unwrap();
        assert!(storage.read_at(0, &mut [0]).is_err());
        storage.verify().unwrap();
    }
}

#[test]
fn what_is_not_a_file_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    for backend in BACKENDS {
        let error = Storage::open(dir.path(), backend).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("directory"), "{error}");
        let missing = dir.path().join("missing.bin");
        let error = Storage::open(&missing, backend).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Io, Some(missing.as_path())));
        assert!(error.hint().unwrap().contains("check the path"));
    }
}

#[test]
fn a_file_that_grows_is_read_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = file_of(&dir, &[7; 100]);
    for backend in BACKENDS {
        set_len(&path, 100);
        let storage = Storage::open(&path, backend).unwrap();
        set_len(&path, 100_000);
        assert_eq!(storage.len(), 100);
        assert!(storage.read_at(50, &mut [0; 51]).is_err());
        let mut out = [0; 50];
        storage.read_at(50, &mut out).unwrap();
        assert_eq!(out, [7; 50]);
        storage.verify().unwrap();
    }
}

#[test]
fn a_file_may_grow_while_a_data_set_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.bin");
    // As it was where it ended, or not.
    for (rest, same) in [(7u8, true), (8, false)] {
        std::fs::write(&path, [7; 100]).unwrap();
        let opened = recorded(|| {
            Storage::open(&path, Backend::Buffered)?;
            std::fs::write(&path, [&[7u8; 99][..], &[rest; 5000]].concat()).unwrap();
            Storage::open(&path, Backend::Mmap)
        });
        assert_eq!(opened.is_ok(), same);
    }
}

#[test]
#[cfg(unix)]
fn a_file_that_has_grown_and_was_renamed_lives_on() {
    let dir = tempfile::tempdir().unwrap();
    for backend in BACKENDS {
        let path = file_of(&dir, &[7; 100]);
        let (storage, _) = recorded(|| Storage::open(&path, backend)).unwrap();
        set_len(&path, 5000);
        std::fs::rename(&path, dir.path().join("renamed.bin")).unwrap();
        storage.verify().unwrap();
        // Whatever has its name now.
        file_of(&dir, &[1; 200]);
        storage.verify().unwrap();
    }
}

/// One byte of a mapped file, read anew whatever the compiler knows about it.
fn byte(storage: &Storage, offset: u64) -> u8 {
    let byte = &storage.bytes(offset..offset + 1).unwrap()[0];
    // SAFETY: a reference is valid for reads.
    unsafe { std::ptr::read_volatile(byte) }
}

/// Checks the error for a file cut from 1 000 000 to `left` bytes.
fn assert_shrunk(error: &Error, path: &Path, left: &str) {
    let text = error.to_string();
    assert_eq!((error.kind(), error.path()), (ErrorKind::BadFile, Some(path)), "{text}");
    assert!(text.contains("1000000 bytes") && text.contains(left), "{text}");
}

#[test]
fn a_mapped_file_that_shrinks_gives_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = file_of(&dir, &vec![7; 1_000_000]);
    let storage = Storage::open(&path, Backend::Mmap).unwrap();
    let other = Storage::open(&path, Backend::Mmap).unwrap();
    assert_eq!(byte(&storage, 999_999), 7);
    set_len(&path, 10_000);
    // Far beyond the new end: a fault, unless the guard catches it.
    assert_eq!(byte(&storage, 600_000), 0);
    assert_eq!(byte(&storage, 999_999), 0);
    assert_eq!(byte(&storage, 9_999), 7);
    assert_shrunk(&storage.verify().unwrap_err(), &path, "10000 bytes");
    // Even where the length is restored, what was read stays reported.
    set_len(&path, 1_000_000);
    let error = storage.verify().unwrap_err();
    assert!(error.to_string().contains("could not be read"), "{error}");
    // Another mapping of the same file was not read meanwhile, but its file was written to.
    let error = other.verify().unwrap_err();
    assert!(error.to_string().contains("written to"), "{error}");
    drop(storage);
    let fresh = Storage::open(&path, Backend::Mmap).unwrap();
    fresh.verify().unwrap();
}

#[test]
fn a_file_cut_within_its_last_page_gives_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = file_of(&dir, &vec![7; 1_000_000]);
    let storage = Storage::open(&path, Backend::Mmap).unwrap();
    set_len(&path, 999_990);
    assert_eq!(storage.bytes(999_995..999_996).unwrap(), [0]);
    assert_shrunk(&storage.verify().unwrap_err(), &path, "999990 bytes");
}

#[test]
fn a_buffered_file_that_shrinks_gives_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = file_of(&dir, &vec![7; 1_000_000]);
    let storage = Storage::open(&path, Backend::Buffered).unwrap();
    set_len(&path, 10_000);
    assert_shrunk(&storage.read_at(9_999, &mut [0; 2]).unwrap_err(), &path, "10000 bytes");
    assert_shrunk(&storage.verify().unwrap_err(), &path, "10000 bytes");
}

#[test]
fn a_mapped_file_that_is_deleted_or_replaced_lives_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = file_of(&dir, &vec![7; 100_000]);
    let storage = Storage::open(&path, Backend::Mmap).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(storage.bytes(99_999..100_000).unwrap(), [7]);
    storage.verify().unwrap();
    std::fs::write(&path, [1]).unwrap();
    storage.verify().unwrap();
}

#[test]
fn many_threads_may_hit_the_missing_part_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = file_of(&dir, &vec![7; 1_000_000]);
    for _ in 0..20 {
        std::fs::write(&path, vec![7; 1_000_000]).unwrap();
        let storages: Vec<Storage> =
            (0..3).map(|_| Storage::open(&path, Backend::Mmap).unwrap()).collect();
        set_len(&path, 0);
        std::thread::scope(|scope| {
            for i in 0..8 {
                let storage = &storages[i % 3];
                scope.spawn(move || {
                    let bytes = storage.bytes(0..1_000_000).unwrap();
                    let sum: u64 = bytes.iter().rev().map(|&b| u64::from(b)).sum();
                    assert_eq!(sum, 0);
                    storage.verify().unwrap_err();
                });
            }
        });
    }
}

/// Runs an ignored test of this module in a separate process.
#[cfg(unix)]
fn run_alone(test: &str) -> std::process::Output {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            &format!("access::storage::tests::{test}"),
            "--ignored",
            "--test-threads=1",
        ])
        .output()
        .unwrap()
}

#[cfg(unix)]
mod foreign {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    /// Maps a file behind the guard's back and reads past its end.
    fn fault_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let path = file_of(&dir, &vec![7; 100_000]);
        let file = File::open(&path).unwrap();
        // SAFETY: no other code writes to the file, and the fault is what is wanted.
        let map = unsafe { memmap2::Mmap::map(&file) }.unwrap();
        set_len(&path, 0);
        eprintln!("read {}", std::hint::black_box(&map)[50_000]);
    }

    fn open_something() {
        let dir = tempfile::tempdir().unwrap();
        Storage::open(file_of(&dir, &[1]), Backend::Mmap).unwrap();
    }

    #[test]
    fn faults_elsewhere_end_the_process_as_ever() {
        let output = run_alone("foreign::child_faults");
        assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
    }

    #[test]
    #[ignore = "ends its process; run by faults_elsewhere_end_the_process_as_ever"]
    fn child_faults() {
        open_something();
        fault_elsewhere();
    }

    #[test]
    fn sent_signals_end_the_process_as_ever() {
        let output = run_alone("foreign::child_is_sent_a_signal");
        assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
    }

    #[test]
    #[ignore = "ends its process; run by sent_signals_end_the_process_as_ever"]
    fn child_is_sent_a_signal() {
        // The standard library's own handler would swallow the first one.
        // SAFETY: the default action needs no handler.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
        open_something();
        // SAFETY: has no preconditions.
        unsafe { libc::raise(libc::SIGBUS) };
    }

    #[test]
    fn faults_elsewhere_reach_the_replaced_handlers() {
        let output = run_alone("foreign::child_has_a_handler");
        assert_eq!(output.status.code(), Some(42), "{output:?}");
    }

    extern "C" fn exit_42(_: libc::c_int) {
        // SAFETY: may be called in a signal handler.
        unsafe { libc::_exit(42) };
    }

    #[test]
    #[ignore = "ends its process; run by faults_elsewhere_reach_the_replaced_handlers"]
    fn child_has_a_handler() {
        open_something();
        let handler: extern "C" fn(libc::c_int) = exit_42;
        // SAFETY: the handler only calls what a handler may call.
        unsafe { libc::signal(libc::SIGBUS, handler as libc::sighandler_t) };
        // Ours is put on top again, and still guards.
        super::a_mapped_file_that_shrinks_gives_an_error();
        fault_elsewhere();
    }
}
