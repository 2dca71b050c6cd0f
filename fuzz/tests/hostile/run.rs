//! What the tests of every target do.

use framefold::ErrorKind;
use framefold::io::open_as;
use framefold_fuzz::{
    Choices, Folder, Frames, Input, Memory, Mutator, Seed, Target, check, corpus, read_frames,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long inputs are changed if nothing is said.
const SECONDS: f64 = 1.0;
/// How often it is looked whether an input hangs.
const NAP: Duration = Duration::from_millis(100);
/// An input that takes more naps does.
const PATIENCE: u32 = 600;
/// Bytes at the start of a file that is cut at each of them.
const HEADER: usize = 2048;
/// It is cut at every so many bytes of the rest.
const STEP: usize = 37;
/// So many inputs are cut that often, and further ones, which begin alike, less.
const CLOSELY: usize = 2;
/// Every so many bytes of their headers.
const LESS: usize = 7;
/// Every so many of the cut ones are read in all ways, and not frame by frame alone.
const IN_ALL_WAYS: usize = 5;

/// Inputs that were answered, in all tests: there is one at a time.
static DONE: AtomicU64 = AtomicU64::new(0);

/// Inputs on their way through the engine. What ends a test, or the process, is found in a file.
struct Runner {
    target: Target,
    folder: Folder,
    record: PathBuf,
    alive: Arc<()>,
}

impl Runner {
    fn new(name: &str, test: &str) -> Self {
        let target = Target::named(name).unwrap();
        let record = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}-{test}"));
        let runner =
            Runner { target, folder: Folder::try_new().unwrap(), record, alive: Arc::default() };
        runner.watch();
        runner
    }

    /// Ends the process if an input takes too long.
    fn watch(&self) {
        let (alive, record) = (Arc::downgrade(&self.alive), self.record.clone());
        std::thread::spawn(move || {
            let mut last = (0, 0);
            // Naps are counted: a process that is stopped for a while does not hang.
            while alive.upgrade().is_some() {
                let done = DONE.load(Ordering::Relaxed);
                last = if done == last.0 { (done, last.1 + 1) } else { (done, 0) };
                if last.1 > PATIENCE {
                    eprintln!("the input in '{}', or beside it, takes too long", record.display());
                    std::process::abort();
                }
                std::thread::sleep(NAP);
            }
        });
    }

    fn check(&self, data: &[u8], what: &str) {
        std::fs::write(&self.record, data).unwrap();
        if let Err(found) = check(self.target, &self.folder, data) {
            panic!("{what}: {found}");
        }
        DONE.fetch_add(1, Ordering::Relaxed);
    }

    /// The frames of an input, if it can be opened.
    fn frames(&self, input: &Input) -> framefold::Result<Frames> {
        let main = self.folder.write(input, self.target.main).unwrap();
        let _memory = Memory::for_input(input.len_bytes());
        let options = Choices::of(input).options(self.target, input, &main);
        let format = if self.target.name == "detect" { "auto" } else { self.target.name };
        open_as(format, &main, &options).map(|dataset| read_frames(&dataset))
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input is in '{}'", self.record.display());
        } else {
            let _ = std::fs::remove_file(&self.record);
        }
    }
}

fn seeds(target: Target) -> Vec<Seed> {
    corpus(target).unwrap()
}

/// Whether an input is a whole data set, and not something that fuzzing found.
fn is_sound(seed: &Seed) -> bool {
    !seed.name.starts_with("found-")
}

pub fn committed(name: &str) {
    let runner = Runner::new(name, "committed");
    for seed in seeds(runner.target) {
        runner.check(&seed.data, &seed.name);
        let input = Input::parse(&seed.data);
        assert_eq!(input.to_bytes(), seed.data, "{}", seed.name);
        // Inputs for detection have no options, and may be cut.
        if is_sound(&seed) && name != "detect" {
            let frames = runner.frames(&input).unwrap_or_else(|e| panic!("{}: {e}", seed.name));
            assert!(!frames.read.is_empty() && frames.refused == 0, "{}", seed.name);
        }
    }
}

pub fn changed(name: &str) {
    let runner = Runner::new(name, "changed");
    let seconds = std::env::var("FRAMEFOLD_FUZZ_SECONDS").ok();
    let seconds = seconds.map_or(SECONDS, |seconds| seconds.parse().unwrap());
    let seeds: Vec<_> = seeds(runner.target).into_iter().map(|seed| seed.data).collect();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let seed = std::env::var("FRAMEFOLD_SEED").ok();
    let seed = seed.map_or(1, |seed| seed.parse().unwrap());
    println!("{name}: seed {seed}");
    let mut mutator = Mutator::new(seed);
    let mut n = 0u64;
    while Instant::now() < end {
        runner.check(&mutator.input(&seeds), &format!("changed input {n}"));
        n += 1;
    }
    println!("{name}: {n} inputs");
}

pub fn cut(name: &str) {
    let runner = Runner::new(name, "cut");
    let seeds = seeds(runner.target);
    for (number, seed) in seeds.iter().filter(|seed| is_sound(seed)).enumerate() {
        let input = Input::parse(&seed.data);
        let Ok(whole) = runner.frames(&input) else { continue };
        // Formats have tests of their own; those for detection are the same files again.
        let closely = number < CLOSELY && name != "detect";
        for (i, part) in input.parts.iter().enumerate() {
            let len = part.bytes.len();
            let header = if part.blocks { 0 } else { len.min(HEADER) };
            let step = if closely { 1 } else { LESS };
            let lens = (0..header).step_by(step).chain((header..len).step_by(STEP));
            for (n, len) in lens.enumerate() {
                let mut cut = input.clone();
                cut.parts[i].bytes.truncate(len);
                cut.parts[i].padded = 0;
                let what = format!("{}: {len} bytes of file {i} ('{}')", seed.name, part.name);
                if n % IN_ALL_WAYS == 0 {
                    runner.check(&cut.to_bytes(), &what);
                }
                match runner.frames(&cut) {
                    Ok(frames) => assert_part_of(&frames, &whole, &what),
                    Err(error) => assert_ne!(error.kind(), ErrorKind::Bug, "{what}: {error}"),
                }
                DONE.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Each frame that is read is one of the whole data set.
fn assert_part_of(frames: &Frames, whole: &Frames, what: &str) {
    assert_eq!((&frames.sig_shape, frames.dtype), (&whole.sig_shape, whole.dtype), "{what}");
    for (number, bytes) in &frames.read {
        let same = whole.read.iter().find(|(other, _)| other == number);
        assert_eq!(Some(bytes), same.map(|(_, bytes)| bytes), "{what}: frame {number}");
    }
}
