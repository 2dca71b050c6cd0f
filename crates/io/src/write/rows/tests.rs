//! Rows of two results, one of them in chunks, in one go and in two.

use super::*;
use crate::write::whole::OutputKind;
use crc32c::crc32c;
use framefold_core::{BufferDecl, BufferKind, DType, Shape};
use std::path::Path;

const ROW: usize = 3;
const NAV: usize = 10;
/// Two rows.
const CHUNK: u64 = 2 * ROW as u64 * 4;

fn value(position: usize) -> [f32; ROW] {
    [position as f32, 0.5, -1.0]
}

/// The selected positions: all but the first and those that 4 divides.
fn roi() -> Arc<Roi> {
    Arc::new(Roi::try_new((0..NAV).map(|i| i % 4 != 0).collect()).unwrap())
}

/// Writes partitions of two frames, but for the third, which never came; stops before `until`.
fn write(folder: &Path, done: RowsDone, until: usize) -> Result<Vec<String>> {
    let resume = |name: &str, kind| WholeOutput::resume(&folder.join(name), kind, false, &[]);
    let npy = resume("x.npy", OutputKind::File)?;
    let zarr = resume("x.zarr", OutputKind::ZarrGroup)?;
    let records = [npy.1, zarr.1].into_iter().flatten().collect();
    let mut outputs = vec![npy.0, zarr.0];
    let shape = Shape::try_new(&[2, NAV / 2], &[4]).unwrap();
    let decl =
        |name: &str| BufferDecl::new(name, BufferKind::Nav, DType::F32).with_extra_shape(&[ROW]);
    let (one, two, roi) = (decl("one"), decl("two"), roi());
    let layout = RowsLayout::Chunks { file: "two/c/0/0/0".into(), chunk_bytes: CHUNK };
    let entry =
        |udf, name: &str, output, layout| RowsEntry { udf, name: name.into(), output, layout };
    let entries = vec![entry(0, "one", 0, RowsLayout::Npy), entry(2, "two", 1, layout)];
    let mut sink = RowsSink::try_new(&outputs, entries, Some(r#"{"what": "a test"}"#), done)?;
    let job = SinkJob { buffers: &[(0, &one), (2, &two)], shape: &shape, roi: Some(&roi) };
    let first = sink.begin(&job)?;
    assert_eq!(first, done.n_merged);
    for partition in first..until.min(4) {
        let frames = match partition {
            2 => 4..4,
            _ => 2 * partition..(2 * partition + 2).min(roi.n_selected()),
        };
        let rows: Vec<u8> = frames
            .clone()
            .flat_map(|frame| value(roi.positions()[frame]))
            .flat_map(f32::to_ne_bytes)
            .collect();
        sink.merged(&NewRows { frames, rows: &[&rows, &rows], n_merged: partition + 1 })?;
    }
    if until > 4 {
        sink.finish()?;
        drop(sink);
        outputs.into_iter().try_for_each(WholeOutput::publish)?;
    } else {
        drop(sink);
        outputs.iter_mut().for_each(WholeOutput::keep);
    }
    Ok(records)
}

fn expected() -> Vec<u8> {
    let roi = roi();
    let there = |position: &usize| match roi.positions().binary_search(position) {
        Ok(frame) => !(4..6).contains(&frame),
        Err(_) => false,
    };
    let values = (0..NAV).map(|i| if there(&i) { value(i) } else { [f32::NAN; ROW] });
    values.flatten().flat_map(f32::to_ne_bytes).collect()
}

fn check(folder: &Path) {
    let npy = std::fs::read(folder.join("x.npy")).unwrap();
    let (header, rows) = npy.split_at(npy.len() - expected().len());
    assert_eq!(header, npy::header(DType::F32, &[2, NAV / 2, ROW]));
    assert_eq!(rows, expected());

    let shard = std::fs::read(folder.join("x.zarr/two/c/0/0/0")).unwrap();
    let (rows, index) = shard.split_at(expected().len());
    assert_eq!(rows, expected());
    let (index, sum) = index.split_at(index.len() - 4);
    assert_eq!(sum, crc32c(index).to_le_bytes());
    let numbers: Vec<u64> =
        index.chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect();
    let chunks = (0..NAV as u64 / 2).flat_map(|i| [i * CHUNK, CHUNK]);
    assert_eq!(numbers, chunks.collect::<Vec<_>>());
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["x.npy", "x.zarr"]);
}

#[test]
fn rows_lie_in_the_shape_of_the_scan() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), RowsDone::default(), usize::MAX).unwrap();
    check(dir.path());
}

#[test]
fn records_say_where_to_go_on() {
    for until in 0..=4 {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), RowsDone::default(), until).unwrap();
        let text = std::fs::read_to_string(dir.path().join(".x.npy.framefold-record")).unwrap();
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(record["what"], "a test");
        let number = |name: &str| usize::try_from(record[name].as_u64().unwrap()).unwrap();
        let done = RowsDone { n_merged: number("partitions"), position: number("positions") };
        assert_eq!(done.n_merged, until);
        let records = write(dir.path(), done, usize::MAX).unwrap();
        assert_eq!(records, [text.clone(), text]);
        check(dir.path());
    }
}

#[test]
fn a_part_that_is_too_short_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), RowsDone::default(), 2).unwrap();
    let part = dir.path().join(".x.npy.framefold-part");
    std::fs::OpenOptions::new().write(true).open(part).unwrap().set_len(30).unwrap();
    let done = RowsDone { n_merged: 2, position: 6 };
    let error = write(dir.path(), done, usize::MAX).unwrap_err();
    assert!(error.message().contains("has 30 bytes, and its record says"), "{error}");
}
