//! `framefold info`: says what files are, without reading a pixel.

use super::{for_each_file, tuple};
use crate::args::InfoArgs;
use crate::terminal::{self, one_line};
use framefold::core::{Axis, ByteOrder, Metadata, MetadataValue, Presence, SourceInfo};
use framefold::io::{detect, row_order_of};
use framefold::{Dataset, Result};
use indicatif::BinaryBytes;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Describes each file.
pub(crate) fn info(args: &InfoArgs) -> Result<u8> {
    for_each_file(args.data.inputs(&args.files), |file| {
        let facts = Facts::gather(file, args)?;
        terminal::print(&if args.json { facts.to_json().to_string() } else { facts.to_text() })
    })
}

/// What is known about a file once its headers are read.
struct Facts<'a> {
    file: &'a Path,
    dataset: Dataset,
    reason: String,
}

impl<'a> Facts<'a> {
    fn gather(file: &'a Path, args: &InfoArgs) -> Result<Self> {
        let auto = args.data.format == "auto";
        let (format, reason) = if auto {
            let detection = detect(file)?;
            (detection.format.name, format!("detected: {}", detection.reason))
        } else {
            (args.data.format.as_str(), "as --format says".to_owned())
        };
        let dataset = args.data.open(format, file, &args.files)?;
        Ok(Facts { file, dataset, reason })
    }

    fn info(&self) -> &SourceInfo {
        self.dataset.source().info()
    }

    /// Frames that the file should hold but does not.
    fn n_missing(&self) -> u64 {
        let info = self.info();
        match &info.presence {
            Presence::All => 0,
            Presence::Ranges(ranges) => {
                let there: u64 = ranges.iter().map(|range| range.end - range.start).sum();
                info.n_frames.saturating_sub(there)
            }
        }
    }

    /// Scan positions that show no frame.
    fn n_empty(&self) -> usize {
        let filled: usize = self.dataset.positions_with_data().iter().map(|run| run.len()).sum();
        self.dataset.shape().n_frames().saturating_sub(filled)
    }

    /// Bytes of all files together, as far as they can be asked.
    fn file_bytes(&self) -> u64 {
        let sizes = self.info().paths.iter().filter_map(|path| std::fs::metadata(path).ok());
        sizes.map(|meta| meta.len()).sum()
    }

    fn to_text(&self) -> String {
        let (info, shape, sync) = (self.info(), self.dataset.shape(), self.dataset.sync_info());
        let mut lines = vec![one_line(&self.file.display().to_string())];
        let mut row =
            |name: &str, text: String| lines.push(format!("  {name:<12}{}", one_line(&text)));
        row("format", format!("{} ({})", info.format, self.reason));
        row(
            "scan",
            match shape.n_frames() {
                1 => format!("{}, 1 position", tuple(shape.nav())),
                n => format!("{}, {n} positions", tuple(shape.nav())),
            },
        );
        row("frame", format!("{} {}", tuple(shape.sig()), info.dtype));
        row(
            "frames",
            match self.n_missing() {
                0 => format!("{}, all present", info.n_frames),
                n => format!("{}, {n} of them missing", info.n_frames),
            },
        );
        let files = match info.paths.len() {
            1 => "1 file".to_owned(),
            n => format!("{n} files"),
        };
        row("size", format!("{} in {files}", BinaryBytes(self.file_bytes())));
        row("sync", format!("offset {}", self.dataset.sync_offset()));
        for (n, what) in [
            (sync.frames_skipped_start, "frames at the start of the file are not shown"),
            (sync.frames_ignored_end, "frames at the end of the file are not shown"),
            (sync.frames_inserted_start, "positions at the start of the scan have no frame"),
            (sync.frames_inserted_end, "positions at the end of the scan have no frame"),
        ] {
            if n > 0 {
                row("", format!("{n} {what}"));
            }
        }
        if self.n_empty() > 0 {
            row("no data", format!("{} scan positions", self.n_empty()));
        }
        let how = if info.lends { "used as it lies in memory" } else { "decoded into a buffer" };
        row("reading", how.to_owned());
        if let Some(corrections) = self.dataset.corrected() {
            row("corrected", corrections);
        }
        if let Some(order) = row_order_of(&self.dataset) {
            row("rows", order);
        }
        for axis in self.dataset.axes() {
            row("axis", axis.to_string());
        }
        for fact in self.dataset.metadata().iter() {
            row("metadata", format!("{}: {fact}", fact.quantity.name()));
        }
        for (name, text) in &info.details {
            row("detail", format!("{name}: {text}"));
        }
        for warning in self.dataset.warnings() {
            row("warning", warning);
        }
        lines.join("\n")
    }

    fn to_json(&self) -> Value {
        let (info, shape, sync) = (self.info(), self.dataset.shape(), self.dataset.sync_info());
        let order = match info.dtype.order {
            ByteOrder::Little => "little",
            ByteOrder::Big => "big",
        };
        let paths: Vec<String> = info.paths.iter().map(|path| path.display().to_string()).collect();
        let details: Map<String, Value> = info
            .details
            .iter()
            .map(|(name, text)| (name.clone(), Value::from(text.as_str())))
            .collect();
        let metadata: Map<String, Value> =
            self.dataset.metadata().iter().map(fact_to_json).collect();
        let axes: Vec<Value> = self.dataset.axes().iter().map(axis_to_json).collect();
        json!({
            "file": self.file.display().to_string(),
            "format": info.format,
            "reason": self.reason,
            "nav_shape": shape.nav(),
            "sig_shape": shape.sig(),
            "dtype": info.dtype.dtype.name(),
            "byte_order": order,
            "n_frames": info.n_frames,
            "n_missing": self.n_missing(),
            "n_positions_without_data": self.n_empty(),
            "sync_offset": self.dataset.sync_offset(),
            "frames_skipped_start": sync.frames_skipped_start,
            "frames_ignored_end": sync.frames_ignored_end,
            "frames_inserted_start": sync.frames_inserted_start,
            "frames_inserted_end": sync.frames_inserted_end,
            "zero_copy": info.lends,
            "corrected": self.dataset.corrected(),
            "paths": paths,
            "file_bytes": self.file_bytes(),
            "axes": axes,
            "row_order": row_order_of(&self.dataset),
            "metadata": metadata,
            "details": details,
            "warnings": self.dataset.warnings(),
        })
    }
}

fn axis_to_json(axis: &Axis) -> Value {
    json!({
        "name": axis.name,
        "kind": axis.kind.name(),
        "size": axis.size,
        "scale": axis.scale,
        "offset": axis.offset,
        "unit": axis.unit,
        "direction": axis.direction(),
    })
}

/// `"camera_length": {"value": 115.0, "unit": "mm"}`; texts and plain numbers have no unit.
fn fact_to_json(fact: &Metadata) -> (String, Value) {
    let value = match &fact.value {
        MetadataValue::Number(number) => Value::from(*number),
        MetadataValue::Text(text) => Value::from(text.as_str()),
    };
    let json = match fact.quantity.unit() {
        "" => json!({ "value": value }),
        unit => json!({ "value": value, "unit": unit }),
    };
    (fact.quantity.name().to_owned(), json)
}
