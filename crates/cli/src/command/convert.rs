//! `framefold convert`: writes data in another format.

use crate::args::{ConvertArgs, ConvertTo};
use crate::interrupt::cancel_on_interrupt;
use crate::output::check_not_inputs;
use crate::progress::Frames;
use crate::roi::{file_of_roi, parse_roi};
use crate::{exit, terminal};
use framefold::io::{CsrWritten, Written, ZarrVersion};
use framefold::{
    CsrWriteOptions, Dataset, Error, Result, WriteOptions, write_dataset, write_raw_csr,
};
use indicatif::BinaryBytes;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Converts the file.
pub(crate) fn convert(args: &ConvertArgs) -> Result<u8> {
    let sparse = match args.to {
        Some(to) => to == ConvertTo::RawCsr,
        None => args.output.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml")),
    };
    check(args, sparse)?;
    let given = args.data.corrections().files().chain(file_of_roi(args.roi.as_deref()));
    let given: Vec<PathBuf> = given.map(Path::to_path_buf).collect();
    check_not_inputs([&*args.output], given.iter().map(PathBuf::as_path))?;
    let dataset = args
        .data
        .open(&args.data.format, &args.input, &[])
        .map_err(|error| error.with_path(&args.input))?;
    if !args.quiet {
        for warning in dataset.warnings() {
            terminal::warn_of(&args.input, &warning);
        }
    }
    let (text, json) =
        if sparse { to_sparse(args, &dataset, given)? } else { to_array(args, &dataset)? };
    if args.json {
        terminal::print(&json.to_string())?;
    } else if !args.quiet {
        terminal::print(&text)?;
    }
    Ok(exit::SUCCESS)
}

/// Refuses options that the output has no use for.
fn check(args: &ConvertArgs, sparse: bool) -> Result<()> {
    let arrays = [
        ("--roi", args.roi.is_some()),
        ("--zarr-format", args.zarr_format.is_some()),
        ("--chunks", args.chunks.is_some()),
        ("--compression", args.compression.is_some()),
        ("--level", args.level.is_some()),
        ("--to-dtype", args.to_dtype.is_some()),
        ("--lossy", args.lossy),
        ("--no-verify", args.no_verify),
        ("--threads", args.threads.is_some()),
        ("--orientation", args.orientation.is_some()),
    ];
    let (given, kind, other) = if sparse {
        let given = arrays.into_iter().find(|(_, given)| *given).map(|(name, _)| name);
        (given, "sparse files", "whole arrays")
    } else {
        (args.threshold.map(|_| "--threshold"), "whole arrays", "sparse files")
    };
    let Some(name) = given else { return Ok(()) };
    Err(Error::invalid(format!("'{name}' is for {other}, but {kind} are to be written"))
        .with_hint("leave it out, or choose another format (--to)"))
}

/// A bar for so many frames.
fn bar(args: &ConvertArgs, n_frames: usize) -> Frames {
    let name = args.input.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Frames::new(name, n_frames, args.quiet)
}

/// Writes sparse files, none of which takes the place of `inputs`.
fn to_sparse(
    args: &ConvertArgs,
    dataset: &Dataset,
    inputs: Vec<PathBuf>,
) -> Result<(String, Value)> {
    let n_frames: usize = dataset.positions_with_data().iter().map(|run| run.len()).sum();
    let running = cancel_on_interrupt();
    let mut bar = bar(args, n_frames);
    let mut progress = |n_done: u64| {
        bar.set(n_done);
        running.cancel.check()
    };
    let options = CsrWriteOptions { threshold: args.threshold, force: args.force, inputs };
    let written = running.run(|| write_raw_csr(dataset, &args.output, &options, &mut progress));
    let written = written.map_err(|error| error.with_path(&args.output))?;
    Ok((sparse_text(&written, dataset, args), sparse_json(&written, dataset)))
}

fn to_array(args: &ConvertArgs, dataset: &Dataset) -> Result<(String, Value)> {
    let roi = args.roi.as_deref().map(|text| parse_roi(text, dataset.shape().nav()));
    let roi = roi.transpose()?.map(Arc::new);
    let n_frames = roi.as_ref().map_or(dataset.shape().n_frames(), |roi| roi.n_selected());
    let options = WriteOptions {
        format: args.to.and_then(ConvertTo::array),
        zarr_format: args.zarr_format.map(ZarrVersion::of_number).transpose()?,
        chunks: args.chunks.clone(),
        compression: args.compression.map(Into::into),
        level: args.level,
        dtype: args.to_dtype.map(|stored| stored.dtype),
        lossy: args.lossy,
        roi,
        force: args.force,
        unverified: args.no_verify,
        threads: args.threads,
        orientation: args.orientation.map(Into::into),
    };
    let running = cancel_on_interrupt();
    let mut bar = bar(args, n_frames);
    let mut progress = |n_done: u64| {
        bar.set(n_done);
        running.cancel.check()
    };
    let written = running.run(|| write_dataset(dataset, &args.output, &options, &mut progress));
    let written = written.map_err(|error| error.with_path(&args.output))?;
    drop(bar);
    if written.n_missing > 0 && !args.quiet {
        terminal::warn(&format!(
            "{} of {} scan positions have no data; they are filled with {}",
            written.n_missing,
            written.n_frames,
            written.fill()
        ));
    }
    Ok((array_text(&written), array_json(&written)))
}

fn array_text(written: &Written) -> String {
    let turned = written.turned.as_ref();
    let turned =
        turned.map(|turned| format!(", turned ({turned}), as HyperSpy shows the original"));
    format!(
        "{}: {} frames of shape {:?}, {}, {}{}{}",
        written.path.display(),
        written.n_frames,
        written.sig_shape,
        written.dtype,
        BinaryBytes(written.len_bytes),
        if written.verified { ", read back and compared" } else { "" },
        turned.unwrap_or_default()
    )
}

fn array_json(written: &Written) -> Value {
    json!({
        "paths": [written.path.display().to_string()],
        "n_frames": written.n_frames,
        "n_missing": written.n_missing,
        "bytes": written.len_bytes,
        "nav_shape": written.nav_shape,
        "sig_shape": written.sig_shape,
        "dtype": written.dtype.name(),
        "chunks": written.chunks,
        "verified": written.verified,
        "turned": written.turned,
    })
}

fn n_pixels(written: &CsrWritten, dataset: &Dataset) -> f64 {
    written.n_frames as f64 * dataset.shape().frame_len() as f64
}

fn sparse_text(written: &CsrWritten, dataset: &Dataset, args: &ConvertArgs) -> String {
    let pixels = n_pixels(written, dataset);
    format!(
        "{}: {} frames, {} entries ({:.3} % of the pixels), {}",
        args.output.display(),
        written.n_frames,
        written.n_entries,
        100.0 * written.n_entries as f64 / pixels,
        BinaryBytes(written.len_bytes)
    )
}

fn sparse_json(written: &CsrWritten, dataset: &Dataset) -> Value {
    let paths: Vec<String> = written.paths.iter().map(|path| path.display().to_string()).collect();
    json!({
        "paths": paths,
        "n_frames": written.n_frames,
        "n_entries": written.n_entries,
        "occupancy": written.n_entries as f64 / n_pixels(written, dataset),
        "bytes": written.len_bytes,
        "nav_shape": dataset.shape().nav(),
        "sig_shape": dataset.shape().sig(),
        "dtype": dataset.pixel_dtype().name(),
    })
}
