//! Opens and reads an input in every way that the engine does, and says what is wrong with the
//! engine, if anything is.

use crate::{Choices, Folder, Input, Memory, Target};
use framefold::core::{DType, FrameIndices, Presence, SourceInfo, TilingScheme, checked_product};
use framefold::io::{Backend, OpenOptions, detect, open, open_as};
use framefold::prelude::{Cancel, Executor, Plan, PlanOptions, RunOptions, Silent, Sum, SumSig};
use framefold::{Dataset, Error, ErrorKind, Result, Roi, run};
use framefold_testkit::{Random, check_source};
use std::path::Path;
use std::sync::Arc;

/// Bytes of frames up to which all laws of a source are checked.
const CHECKED_BYTES: usize = 256 << 10;
/// Bytes of a tile up to which it is read.
const READ_BYTES: usize = 4 << 20;
/// Pixels up to which a run is not only planned.
const RUN_CELLS: usize = 1 << 18;
/// Positions up to which some are selected.
const ROI_POSITIONS: usize = 1 << 16;
/// Frames that are compared.
const COMPARED: usize = 64;

/// Holds the engine to its promises about the bytes `data`.
///
/// # Errors
/// What it did wrong, in a sentence. A panic is a finding, too, and so is a process that ends.
pub fn check(target: Target, folder: &Folder, data: &[u8]) -> Result<(), String> {
    let input = Input::parse(data);
    let choices = Choices::of(&input);
    let main = folder.write(&input, target.main).map_err(|error| format!("no input: {error}"))?;
    let _memory = Memory::for_input(input.len_bytes());
    let mut random = Random::new(choices.seed());
    allow(detect(&main).map(drop))?;
    let options = choices.options(target, &input, &main);
    let Some(dataset) = allow(open_target(target, &main, &options))? else { return Ok(()) };
    if let Some(shrunk) = std::fs::metadata(&main).ok().and_then(|m| choices.shrinks_to(m.len())) {
        let shrinking = std::fs::OpenOptions::new().write(true).open(&main);
        shrinking.and_then(|file| file.set_len(shrunk)).map_err(|error| error.to_string())?;
        allow(read_some(&dataset, &mut random)).map(drop)?;
        return allow(run_over(&dataset, &mut random)).map(drop);
    }
    let info = dataset.source().info();
    let some = usize::try_from(info.n_frames).map_or(36, |n| n.min(36));
    if bytes_of(&info.sig_shape, info.dtype.dtype).is_some_and(|n| n * some <= CHECKED_BYTES) {
        allow(check_source(dataset.source().as_ref()))?;
        if options.backend == Backend::Mmap && target.options().contains(&"backend") {
            let other = OpenOptions { backend: Backend::Buffered, ..options };
            let other = open_target(target, &main, &other)
                .map_err(|error| format!("opened if mapped, but not if buffered: {error}"))?;
            if read_frames(&dataset) != read_frames(&other) {
                return Err("mapped and buffered frames differ".into());
            }
        }
    }
    allow(read_some(&dataset, &mut random))?;
    allow(run_over(&dataset, &mut random)).map(drop)
}

/// Passes on what was found, or `None` for an error that a file may end in.
fn allow<T>(result: Result<T>) -> Result<Option<T>, String> {
    let error = match result {
        Ok(found) => return Ok(Some(found)),
        Err(error) => error,
    };
    // Longer than what messages quote of a file's first bytes.
    let gave_up = error.message().contains("gave up on");
    match error.kind() {
        ErrorKind::Bug | ErrorKind::UserCode | ErrorKind::Cancelled => Err(error.to_string()),
        _ if error.message().is_empty() || gave_up => Err(error.to_string()),
        _ => Ok(None),
    }
}

fn open_target(target: Target, main: &Path, options: &OpenOptions) -> Result<Dataset> {
    if target.name == "detect" { open(main, options) } else { open_as(target.name, main, options) }
}

fn bytes_of(sig_shape: &[usize], dtype: DType) -> Option<usize> {
    usize::try_from(checked_product(sig_shape)?).ok()?.checked_mul(dtype.size())
}

/// All frames of a source, up to some dozens.
#[derive(Debug, PartialEq)]
pub struct Frames {
    /// The shape of each.
    pub sig_shape: Vec<usize>,
    /// Their dtype.
    pub dtype: DType,
    /// Number and bytes of those that could be read.
    pub read: Vec<(u64, Vec<u8>)>,
    /// How many could not.
    pub refused: usize,
}

/// Reads whole frames, one by one. Errors are counted.
pub fn read_frames(dataset: &Dataset) -> Frames {
    let info = dataset.source().info();
    let mut frames = Frames {
        sig_shape: info.sig_shape.clone(),
        dtype: info.dtype.dtype,
        read: Vec::new(),
        refused: 0,
    };
    for frame in present(info).take(COMPARED) {
        match read_frame(dataset, frame) {
            Ok(bytes) => frames.read.push((frame, bytes)),
            Err(_) => frames.refused += 1,
        }
    }
    frames
}

fn read_frame(dataset: &Dataset, frame: u64) -> Result<Vec<u8>> {
    let sig = &dataset.source().info().sig_shape;
    let whole = TilingScheme::try_new(sig, sig, 1)?;
    let slice = whole.slices().first().ok_or_else(|| Error::bug("a frame without slices"))?;
    let mut reader = dataset.source().reader()?;
    let tile = reader.read(FrameIndices::Run(frame..frame + 1), slice)?;
    let bytes = tile.frames().as_bytes().to_vec();
    reader.verify()?;
    Ok(bytes)
}

/// The frames that are there, in order.
fn present(info: &SourceInfo) -> impl Iterator<Item = u64> + '_ {
    let (all, ranges) = match &info.presence {
        Presence::All => (0..info.n_frames, [].as_slice()),
        Presence::Ranges(ranges) => (0..0, ranges.as_slice()),
    };
    all.chain(ranges.iter().cloned().flatten())
}

/// Reads parts of the first frames and of the last one, alone and together.
fn read_some(dataset: &Dataset, random: &mut Random) -> Result<()> {
    let info = dataset.source().info();
    let pieces = if info.sig_shape.len() > 4 { 2 } else { 1 + random.below(8) };
    let tile: Vec<usize> = info.sig_shape.iter().map(|&axis| axis.div_ceil(pieces)).collect();
    if bytes_of(&tile, info.dtype.dtype).is_none_or(|n| n > READ_BYTES) {
        return Ok(());
    }
    let scheme = TilingScheme::try_new(&info.sig_shape, &tile, 1)?;
    let mut frames: Vec<u64> = present(info).take(3).collect();
    let last = match &info.presence {
        Presence::All => info.n_frames.checked_sub(1),
        Presence::Ranges(ranges) => ranges.last().map(|range| range.end - 1),
    };
    frames.extend(last);
    frames.dedup();
    let mut reader = dataset.source().reader()?;
    for slice in [0, random.below(scheme.slices().len()), scheme.slices().len() - 1] {
        let Some(slice) = scheme.slices().get(slice) else { continue };
        for &frame in &frames {
            reader.read(FrameIndices::Run(frame..frame + 1), slice)?;
        }
        reader.read(FrameIndices::List(&frames), slice)?;
    }
    reader.verify()
}

/// Plans a run over some positions and, if it is a small one, runs it.
fn run_over(dataset: &Dataset, random: &mut Random) -> Result<()> {
    let positions = dataset.shape().n_frames();
    let roi = if positions > ROI_POSITIONS || random.below(3) == 0 {
        None
    } else {
        let mask = (0..positions).map(|_| random.below(3) > 0).collect();
        Some(Arc::new(Roi::try_new(mask)?))
    };
    let depth = 1 + random.below(5);
    let options = PlanOptions {
        tile_depth: (random.below(2) == 0).then_some(depth),
        ..PlanOptions::default()
    };
    let plan =
        Plan::try_new(dataset, vec![Arc::new(Sum::default()), Arc::new(SumSig)], roi, &options)?;
    let cells = positions.saturating_mul(dataset.shape().frame_len());
    if cells > RUN_CELLS {
        return Ok(());
    }
    let options =
        RunOptions { executor: Executor::Inline, cancel: Cancel::new(), observer: &mut Silent };
    let results = run(&Arc::new(plan), options)?.snapshot()?;
    let _ = results.valid_nav();
    Ok(())
}
