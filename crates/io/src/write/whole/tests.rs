//! Killed at every step, refused system calls, and what appears meanwhile.

use super::*;
use std::cell::{Cell, RefCell};
use std::process::Command;

/// What happens at a step.
type Due = (String, Box<dyn FnOnce()>);

thread_local! {
    static REFUSED: Cell<bool> = const { Cell::new(false) };
    static MEANWHILE: RefCell<Option<Due>> = const { RefCell::new(None) };
}

const STEP: &str = "FRAMEFOLD_TEST_KILLED_AT";

/// Ends the process as a kill does, or lets something happen, if this is the step for it.
pub(super) fn step(name: &str) {
    if std::env::var(STEP).is_ok_and(|wanted| wanted == name) {
        std::process::abort();
    }
    let due = MEANWHILE.with_borrow_mut(|m| m.take_if(|(at, _)| at == name));
    if let Some((_, work)) = due {
        work();
    }
}

/// Fails as a file system does that can neither exchange nor keep from replacing.
pub(super) fn refused() -> std::io::Result<()> {
    match REFUSED.get() || std::env::var("FRAMEFOLD_TEST_REFUSED").is_ok() {
        true => Err(std::io::Error::from_raw_os_error(libc::EINVAL)),
        false => Ok(()),
    }
}

fn meanwhile(at: &str, work: impl FnOnce() + 'static) {
    MEANWHILE.set(Some((at.to_owned(), Box::new(work))));
}

fn names_of(folder: &Path) -> Vec<String> {
    names(folder).unwrap()
}

fn put(path: &Path, kind: OutputKind, replace: bool, text: &str) -> Result<()> {
    let output = WholeOutput::create(path, kind, replace, &[])?;
    match kind {
        OutputKind::File => std::fs::write(output.part(), text).unwrap(),
        OutputKind::ZarrArray => array(output.part(), text),
        OutputKind::ZarrGroup => {
            array(&output.part().join("image"), text);
            std::fs::write(output.part().join("zarr.json"), r#"{"node_type": "group"}"#).unwrap();
        }
    }
    output.publish()
}

/// The files of an array.
fn array(folder: &Path, text: &str) {
    std::fs::create_dir_all(folder.join("c")).unwrap();
    std::fs::write(folder.join("zarr.json"), r#"{"node_type": "array"}"#).unwrap();
    std::fs::write(folder.join("c").join("0"), text).unwrap();
}

fn read(path: &Path) -> Option<String> {
    let file = if path.is_dir() { path.join("c").join("0") } else { path.to_path_buf() };
    std::fs::read_to_string(file).ok()
}

const KINDS: [OutputKind; 2] = [OutputKind::File, OutputKind::ZarrArray];

/// Not a test: the process that the next one kills.
#[test]
fn killed_child() {
    let Ok(folder) = std::env::var("FRAMEFOLD_TEST_FOLDER") else { return };
    let kind = KINDS[std::env::var("FRAMEFOLD_TEST_KIND").unwrap().parse::<usize>().unwrap()];
    let replace = std::env::var("FRAMEFOLD_TEST_REPLACE").is_ok();
    put(&Path::new(&folder).join("out"), kind, replace, "new").unwrap();
}

#[test]
fn killed_at_every_step_the_old_or_the_new_one_is_there() {
    let steps = [
        ("locked", "old"),
        ("begun", "old"),
        ("written", "old"),
        ("linked", "new"),
        ("exchanged", "new"),
        ("old moved away", ""),
        ("new moved there", "new"),
        ("published", "new"),
        ("never", "new"),
    ];
    let mut reached = std::collections::BTreeSet::new();
    for (at, found) in steps {
        for (k, kind) in KINDS.into_iter().enumerate() {
            for (replace, refused) in [(false, false), (true, false), (false, true), (true, true)] {
                let dir = tempfile::tempdir().unwrap();
                let out = dir.path().join("out");
                if replace {
                    put(&out, kind, false, "old").unwrap();
                }
                let mut child = Command::new(std::env::current_exe().unwrap());
                child.args(["--exact", "write::whole::tests::killed_child", "--nocapture"]);
                child.env("FRAMEFOLD_TEST_FOLDER", dir.path()).env(STEP, at);
                child.env("FRAMEFOLD_TEST_KIND", k.to_string());
                if replace {
                    child.env("FRAMEFOLD_TEST_REPLACE", "1");
                }
                if refused {
                    child.env("FRAMEFOLD_TEST_REFUSED", "1");
                }
                let killed = !child.output().unwrap().status.success();
                let what = format!("{at} {kind:?} replace={replace} refused={refused}");
                if killed {
                    reached.insert(at);
                }
                let expected = match (killed, found) {
                    (false, _) => Some("new"),
                    (true, "old") => replace.then_some("old"),
                    (true, "") => None,
                    (true, found) => Some(found),
                };
                assert_eq!(read(&out).as_deref(), expected, "{what}");
                if at == "old moved away" && killed {
                    // The next writer finds the old one again.
                    let error = put(&out, kind, false, "next").unwrap_err();
                    assert!(error.to_string().contains("exists"), "{error}");
                    assert_eq!(read(&out).as_deref(), Some("old"));
                }
                put(&out, kind, true, "next").unwrap();
                assert_eq!(read(&out).as_deref(), Some("next"), "{what}");
                assert_eq!(names_of(dir.path()), ["out"], "{what}");
            }
        }
    }
    let all: Vec<&str> = steps.iter().map(|(at, _)| *at).filter(|at| *at != "never").collect();
    assert!(all.iter().all(|at| reached.contains(at)), "{reached:?}");
}

#[test]
fn what_appears_meanwhile_stays() {
    for refused in [false, true] {
        REFUSED.set(refused);
        for kind in KINDS {
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("out");
            let there = out.clone();
            meanwhile("written", move || std::fs::write(there, "other").unwrap());
            let error = put(&out, kind, false, "new").unwrap_err();
            assert!(error.to_string().contains("exists"), "{error}");
            assert_eq!(read(&out).as_deref(), Some("other"));
            std::fs::remove_file(&out).unwrap();
            // A folder of another program is not what was to be replaced.
            let there = out.clone();
            meanwhile("written", move || {
                std::fs::create_dir(&there).unwrap();
                std::fs::write(there.join("thesis.txt"), "words").unwrap();
            });
            put(&out, kind, true, "new").unwrap_err();
            assert_eq!(names_of(&out), ["thesis.txt"]);
            assert_eq!(names_of(dir.path()), ["out"]);
        }
    }
    REFUSED.set(false);
}

#[cfg(target_os = "linux")]
#[test]
fn what_changes_after_the_last_look_gets_its_name_back() {
    for (refused, at) in [(false, "exchanged"), (true, "old moved away")] {
        REFUSED.set(refused);
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        put(&out, OutputKind::ZarrArray, false, "old").unwrap();
        let hidden = if refused { ".out.framefold-old" } else { ".out.framefold-part" };
        let moved = dir.path().join(hidden);
        meanwhile(at, move || std::fs::write(moved.join("thesis.txt"), "words").unwrap());
        put(&out, OutputKind::ZarrArray, true, "new").unwrap_err();
        assert_eq!(names_of(&out), ["c", "thesis.txt", "zarr.json"]);
        assert_eq!(read(&out).as_deref(), Some("old"));
        assert_eq!(names_of(dir.path()), ["out"]);
    }
    REFUSED.set(false);
}

#[test]
fn there_is_one_writer_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let first = WholeOutput::create(&out, OutputKind::File, false, &[]).unwrap();
    let error = WholeOutput::create(&out, OutputKind::File, true, &[]).unwrap_err();
    assert!(error.to_string().contains("another run is writing it"), "{error}");
    first.publish().unwrap();
    assert_eq!(names_of(dir.path()), ["out"]);
}

#[test]
fn a_lock_that_is_removed_before_it_is_held_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let lock = dir.path().join(".out.framefold-lock");
    meanwhile("opened", move || std::fs::remove_file(lock).unwrap());
    let first = WholeOutput::create(&out, OutputKind::File, false, &[]).unwrap();
    let error = WholeOutput::create(&out, OutputKind::File, true, &[]).unwrap_err();
    assert!(error.to_string().contains("another run is writing it"), "{error}");
    first.publish().unwrap();
    assert_eq!(names_of(dir.path()), ["out"]);
}

#[test]
fn of_many_at_once_one_says_that_it_wrote() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..50 {
        let out = dir.path().join(format!("out{round}"));
        let done: Vec<String> = std::thread::scope(|scope| {
            let write = |i: usize| {
                let (out, text) = (&out, i.to_string());
                scope.spawn(move || put(out, OutputKind::File, false, &text).map(|()| text).ok())
            };
            let all: Vec<_> = (0..4).map(write).collect();
            all.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(done.len(), 1, "{done:?}");
        assert_eq!(read(&out), done.first().cloned());
    }
    assert_eq!(names_of(dir.path()).len(), 50);
}

#[cfg(unix)]
#[test]
fn permissions_are_those_of_what_was_there() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    for (kind, private) in [(OutputKind::File, 0o600), (OutputKind::ZarrArray, 0o700)] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        put(&out, kind, false, "old").unwrap();
        std::fs::set_permissions(&out, Permissions::from_mode(private)).unwrap();
        put(&out, kind, true, "new").unwrap();
        assert_eq!(mode(&out), private);
    }
}

#[cfg(unix)]
#[test]
fn links_are_followed_wherever_they_lead() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("there")).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("there/real", &link).unwrap();
    put(&link, OutputKind::File, false, "new").unwrap_err();
    for text in ["first", "second"] {
        put(&link, OutputKind::File, true, text).unwrap();
        assert!(link.is_symlink());
        assert_eq!(read(&dir.path().join("there").join("real")).as_deref(), Some(text));
    }
    let circle = dir.path().join("circle");
    std::os::unix::fs::symlink("circle", &circle).unwrap();
    let error = put(&circle, OutputKind::File, true, "x").unwrap_err();
    assert!(error.to_string().contains("circle"), "{error}");
}

#[test]
fn folders_of_others_are_named_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    array(&out, "x");
    let file = |name: &str, text: &str| std::fs::write(out.join(name), text).unwrap();
    let refused = |words: &str| {
        let error = put(&out, OutputKind::ZarrArray, true, "new").unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(names_of(dir.path()), ["out"]);
    };
    file("thesis.txt", "words");
    refused("with other things beside it; to replace it would remove 'c', 'thesis.txt'");
    std::fs::rename(out.join("thesis.txt"), out.join("c").join("thesis.txt")).unwrap();
    refused("has a file within that is no chunk; to replace it would remove 'thesis.txt'");
    std::fs::rename(out.join("c").join("thesis.txt"), out.join("thesis.txt")).unwrap();
    file("zarr.json", r#"{"node_type": "group"}"#);
    refused("a Zarr group; to replace it would remove 'c', 'thesis.txt', 'zarr.json'");
    std::fs::remove_file(out.join("zarr.json")).unwrap();
    file(".zarray", "{}");
    refused("with other things beside it; to replace it would remove '.zarray', 'c', 'thesis.txt'");
    std::fs::remove_file(out.join(".zarray")).unwrap();
    refused("without a Zarr array");
}

#[test]
fn arrays_of_version_2_are_replaced_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let file = |name: &str| {
        let path = out.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    };
    let old = || [".zarray", ".zattrs", "0/1/2", "0.1.3"].map(file);
    for (other, kept) in [("thesis.txt", true), ("0/thesis.txt", true), ("0/1/4", false)] {
        old();
        file(other);
        match put(&out, OutputKind::ZarrArray, true, "new") {
            Ok(()) => assert!(!kept && out.join("zarr.json").exists(), "{other}"),
            Err(error) => {
                assert!(kept && error.to_string().contains("would remove"), "{error}");
                assert!(out.join(other).exists());
            }
        }
        std::fs::remove_dir_all(&out).unwrap();
    }
    // Numbered files alone are no array.
    file("0001");
    put(&out, OutputKind::ZarrArray, true, "new").unwrap_err();
}

#[test]
fn groups_of_zarr_take_the_place_of_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let write = |text| put(&out, OutputKind::ZarrGroup, true, text);
    let error = || write("refused").unwrap_err().to_string();
    std::fs::create_dir(&out).unwrap();
    write("old").unwrap();
    write("new").unwrap();
    assert_eq!(read(&out.join("image")).as_deref(), Some("new"));
    std::fs::write(out.join("image").join("thesis.txt"), "").unwrap();
    assert!(error().contains("'thesis.txt'"), "{}", error());
    // Names as chunks have them, but nothing that says that they are Zarr's.
    std::fs::remove_dir_all(&out).unwrap();
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("0001"), "an image").unwrap();
    assert!(error().contains("'0001'"), "{}", error());
    assert_eq!(names_of(&out), ["0001"]);
}

#[test]
fn a_part_with_a_record_can_be_gone_on_with() {
    for kind in [OutputKind::File, OutputKind::ZarrGroup] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let write = |output: &WholeOutput, text: &str| match kind {
            OutputKind::File => std::fs::write(output.part(), text).unwrap(),
            _ => std::fs::write(output.part().join("zarr.json"), text).unwrap(),
        };
        let text = |part: &Path| {
            let file = if part.is_dir() { part.join("zarr.json") } else { part.to_path_buf() };
            std::fs::read_to_string(file).unwrap()
        };
        let resume = || WholeOutput::resume(&path, kind, false, &[]);

        let (mut output, record) = resume().unwrap();
        assert_eq!(record, None, "there is nothing yet");
        write(&output, "some");
        output.keep();
        drop(output);
        assert!(names_of(dir.path()).is_empty(), "without a record, nothing is kept");

        let mut output = WholeOutput::create(&path, kind, false, &[]).unwrap();
        write(&output, "some");
        output.record().write("first").unwrap();
        output.record().write("second").unwrap();
        assert_eq!(resume().unwrap_err().message(), "another run is writing it");
        output.keep();
        drop(output);
        assert_eq!(names_of(dir.path()), [".out.framefold-part", ".out.framefold-record"]);

        let (output, record) = resume().unwrap();
        assert_eq!((record.as_deref(), text(output.part())), (Some("second"), "some".into()));
        drop(output);
        assert_eq!(names_of(dir.path()).len(), 2, "what was found stays");
        let (output, _) = resume().unwrap();
        write(&output, "all");
        output.publish().unwrap();
        assert_eq!((names_of(dir.path()), text(&path)), (vec!["out".to_owned()], "all".into()));
        assert!(resume().is_err(), "it exists");

        let (mut output, _) = WholeOutput::resume(&path, kind, true, &[]).unwrap();
        write(&output, "new");
        output.record().write("third").unwrap();
        output.keep();
        output.publish().unwrap();
        assert_eq!((names_of(dir.path()), text(&path)), (vec!["out".to_owned()], "new".into()));

        let (output, _) = WholeOutput::resume(&path, kind, true, &[]).unwrap();
        output.record().write("fourth").unwrap();
        output.discard();
        assert_eq!(names_of(dir.path()), ["out"]);
    }
}

#[test]
fn a_refusal_says_what_to_do() {
    let said = |number| {
        failed(std::io::Error::from_raw_os_error(number), Path::new("out"))
            .hint()
            .map(str::to_owned)
    };
    for (number, next_step) in [
        (libc::ENOSPC, "space on that disk"),
        (libc::ENOMEM, "memory"),
        (libc::ENAMETOOLONG, "shorter name"),
        (libc::EACCES, "permissions"),
    ] {
        assert!(said(number).unwrap().contains(next_step), "{number}");
    }
}
