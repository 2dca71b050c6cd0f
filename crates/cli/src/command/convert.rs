//! `framefold convert`: writes data in another format.

use crate::args::{ConvertArgs, ConvertTo};
use crate::interrupt::cancel_on_interrupt;
use crate::progress::Frames;
use crate::{exit, terminal};
use framefold::io::CsrWritten;
use framefold::{CsrWriteOptions, Dataset, Result, open_as, write_raw_csr};
use indicatif::BinaryBytes;
use serde_json::json;

/// Converts the file.
pub(crate) fn convert(args: &ConvertArgs) -> Result<u8> {
    let dataset = open_as(&args.data.format, &args.input, &args.data.open_options(&[]))
        .map_err(|error| error.with_path(&args.input))?;
    if !args.quiet {
        for warning in &dataset.source().info().warnings {
            terminal::warn(warning);
        }
    }
    let cancel = cancel_on_interrupt();
    let name = args.input.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let n_frames: usize = dataset.positions_with_data().iter().map(|run| run.len()).sum();
    let mut bar = Frames::new(name, n_frames, args.quiet);
    let mut progress = |n_done: u64| {
        bar.set(n_done);
        cancel.check()
    };
    let written = match args.to {
        ConvertTo::RawCsr => {
            let options = CsrWriteOptions { threshold: args.threshold, force: args.force };
            write_raw_csr(&dataset, &args.output, &options, &mut progress)
        }
    };
    let written = written.map_err(|error| error.with_path(&args.output))?;
    drop(bar);
    if args.json {
        terminal::print(&to_json(&written, &dataset).to_string())?;
    } else if !args.quiet {
        terminal::print(&to_text(&written, &dataset, args))?;
    }
    Ok(exit::SUCCESS)
}

fn n_pixels(written: &CsrWritten, dataset: &Dataset) -> f64 {
    written.n_frames as f64 * dataset.shape().frame_len() as f64
}

fn to_text(written: &CsrWritten, dataset: &Dataset, args: &ConvertArgs) -> String {
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

fn to_json(written: &CsrWritten, dataset: &Dataset) -> serde_json::Value {
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
