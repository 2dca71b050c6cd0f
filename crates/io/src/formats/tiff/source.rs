//! From pages to a source: pixels that lie in one run are used in place, all others are decoded.

use super::page::{Layout, Place};
use super::{FORMAT, Flavour, Piece, Stack};
use crate::access::Storage;
use crate::headers::geometry;
use crate::options::OpenOptions;
use crate::readers::chunked::{ChunkStore, ChunkedSource, Geometry, GeometrySpec, Segment, Stored};
use crate::readers::linear::{LinearFile, LinearSource, LinearSpec, Pixels};
use framefold_core::{
    AxisKind, DataSource, Dataset, Error, Presence, Result, SourceInfo, checked_product,
};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes the data set.
///
/// # Errors
/// `InvalidArgument` if the options do not fit the frames; `Limit` for strips beyond memory.
pub(super) fn make(mut stack: Stack, options: &OpenOptions) -> Result<Dataset> {
    let Some(layout) = stack.layouts.first().cloned() else {
        return Err(Error::invalid("the list of files is empty"));
    };
    let n_frames = usize::try_from(stack.n_frames).map_err(|_| Error::limit("too many frames"))?;
    let fits =
        |nav: &[usize]| stack.files.len() == 1 && checked_product(nav) == Some(stack.n_frames);
    let nav_shape = match stack.description.nav_shape(&layout.shape) {
        Some(described) if fits(&described) => described,
        described => {
            let in_a_row = vec![n_frames];
            let described = described.as_ref().unwrap_or(&in_a_row);
            let nav_shape = options.nav_shape.as_ref().unwrap_or(&in_a_row);
            stack.description.metadata.lay_out(AxisKind::Nav, described, nav_shape);
            in_a_row
        }
    };
    stack.description.colours(&layout.shape, layout.planes);
    let details = details(&stack, &layout);
    let linear = stack.pieces.iter().all(|piece| matches!(piece.place, Place::Run(_)));
    let source: Arc<dyn DataSource> = if linear {
        let files = stack.pieces.iter().filter_map(|piece| {
            let Place::Run(first_pixel) = piece.place else { return None };
            let (storage, _) = stack.files.get(piece.file)?;
            let frames = piece.frames.clone();
            Some(LinearFile { storage: storage.clone(), frames, first_pixel, stride: piece.stride })
        });
        let sig_shape = geometry::sig_shape(&layout.shape, options)?;
        stack.description.metadata.lay_out(AxisKind::Sig, &layout.shape, &sig_shape);
        Arc::new(LinearSource::try_new(LinearSpec {
            format: FORMAT.name,
            files: files.collect(),
            pixels: Pixels::Plain { stored: layout.stored },
            sig_shape,
            nav_shape,
            metadata: stack.description.metadata,
            details,
            warnings: stack.warnings,
        })?)
    } else {
        if options.sig_shape.as_ref().is_some_and(|wanted| *wanted != layout.shape) {
            return Err(Error::invalid(format!(
                "frames in compressed strips or in tiles keep their shape {:?}",
                layout.shape
            ))
            .with_hint("leave sig_shape out"));
        }
        Arc::new(chunked(stack, &layout, nav_shape, details)?)
    };
    Dataset::try_new(source, options.nav_shape.as_deref(), options.sync_offset)
}

fn details(stack: &Stack, layout: &Layout) -> Vec<(String, String)> {
    let big = stack.files.first().is_some_and(|(_, flavour)| flavour.is_big);
    let mut details = vec![
        ("kind".to_owned(), if big { "BigTIFF" } else { "TIFF" }.to_owned()),
        ("compression".to_owned(), layout.pipeline.to_string()),
        ("strips or tiles".to_owned(), format!("{:?}", layout.chunk)),
    ];
    if stack.files.len() > 1 {
        details.push(("files".to_owned(), stack.files.len().to_string()));
    }
    if stack.n_small > 0 {
        details.push(("small views left out".to_owned(), stack.n_small.to_string()));
    }
    if let Some(program) = stack.description.kind {
        details.push(("description by".to_owned(), program.to_owned()));
    }
    details
}

fn chunked(
    stack: Stack,
    layout: &Layout,
    nav_shape: Vec<usize>,
    details: Vec<(String, String)>,
) -> Result<ChunkedSource> {
    let files: Arc<Vec<File>> = Arc::new(
        stack
            .files
            .into_iter()
            .map(|(storage, flavour)| File { storage, flavour, touched: AtomicBool::new(false) })
            .collect(),
    );
    let mut paths: Vec<PathBuf> = Vec::with_capacity(files.len());
    paths.extend(files.iter().filter_map(|file| Some(file.storage.path()?.to_path_buf())));
    // Neighbours of one layout make a segment.
    let mut groups: Vec<Vec<Piece>> = Vec::new();
    for piece in stack.pieces {
        match groups.last_mut() {
            Some(group)
                if group.last().is_some_and(|last| {
                    (last.layout, last.frames.end) == (piece.layout, piece.frames.start)
                }) =>
            {
                group.push(piece);
            }
            _ => groups.push(vec![piece]),
        }
    }
    let mut segments = Vec::with_capacity(groups.len());
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for group in groups {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let frames = first.frames.start..last.frames.end;
        let Some(layout) = stack.layouts.get(first.layout).cloned() else { continue };
        let n = usize::try_from(frames.end - frames.start)
            .map_err(|_| Error::limit("too many frames"))?;
        let geometry = Geometry::try_new(&GeometrySpec {
            shape: [vec![n], layout.shape.clone()].concat(),
            chunk: [vec![1], layout.chunk.clone()].concat(),
            nav_axes: vec![0],
            sig_axes: (1..=layout.shape.len()).collect(),
        })?;
        match ranges.last_mut() {
            Some(last) if last.end == frames.start => last.end = frames.end,
            _ => ranges.push(frames.clone()),
        }
        segments.push(Segment {
            frames,
            geometry,
            pipeline: layout.pipeline.clone(),
            fill: vec![0; layout.stored.dtype.size()],
            store: Box::new(Pages { files: files.clone(), pieces: group, layout }),
        });
    }
    let n_frames = ranges.last().map_or(0, |range| range.end);
    let all = ranges.first().is_some_and(|range| *range == (0..n_frames));
    let info = SourceInfo {
        format: FORMAT.name,
        paths,
        n_frames,
        presence: if all { Presence::All } else { Presence::Ranges(ranges) },
        sig_shape: layout.shape.clone(),
        nav_shape,
        dtype: layout.stored,
        base_shape: layout.shape.clone(),
        preferred_depth: 1,
        lends: false,
        metadata: stack.description.metadata,
        details,
        warnings: stack.warnings,
    };
    ChunkedSource::try_new(info, segments)
}

/// One of the files, and whether anything of it was read.
#[derive(Debug)]
struct File {
    storage: Storage,
    flavour: Flavour,
    touched: AtomicBool,
}

/// The strips or tiles of pages of one layout.
#[derive(Debug)]
struct Pages {
    files: Arc<Vec<File>>,
    pieces: Vec<Piece>,
    layout: Layout,
}

impl Pages {
    /// The file of a chunk, and its bytes there.
    fn find(&self, index: u64) -> Result<(&File, Range<u64>)> {
        let n_chunks = self.layout.n_chunks().max(1);
        let first = self.pieces.first().map_or(0, |piece| piece.frames.start);
        let frame = first + index / n_chunks;
        let number = self.pieces.partition_point(|piece| piece.frames.end <= frame);
        let piece =
            self.pieces.get(number).ok_or_else(|| Error::bug("a page that is not there"))?;
        let file =
            self.files.get(piece.file).ok_or_else(|| Error::bug("a file that is not there"))?;
        let range = piece.place_of(frame).chunk(
            &file.storage,
            file.flavour,
            &self.layout,
            index % n_chunks,
        )?;
        Ok((file, range))
    }
}

impl ChunkStore for Pages {
    fn fetch<'b>(&'b self, index: u64, buffer: &'b mut Vec<u8>) -> Result<Option<Stored<'b>>> {
        let (file, range) = self.find(index)?;
        file.touched.store(true, Ordering::SeqCst);
        if let Some(bytes) = file.storage.bytes(range.clone()) {
            return Ok(Some(Stored { bytes, mask: 0, lent: true }));
        }
        let n = usize::try_from(range.end - range.start)
            .map_err(|_| Error::limit("a strip does not fit in memory"))?;
        if buffer.len() < n {
            buffer.resize(n, 0);
        }
        let bytes = buffer.get_mut(..n).unwrap_or_default();
        file.storage.read_at(range.start, bytes)?;
        Ok(Some(Stored { bytes, mask: 0, lent: false }))
    }

    fn decoded_len(&self, index: u64, whole: usize) -> usize {
        let bytes = self.layout.chunk_bytes(index % self.layout.n_chunks().max(1));
        usize::try_from(bytes).map_or(whole, |bytes| bytes.min(whole))
    }

    fn locate(&self, index: u64, error: Error) -> Error {
        match self.find(index) {
            Ok((file, range)) => file.storage.locate(error.with_offset(range.start)),
            Err(_) => error,
        }
    }

    fn prepare(&self) -> Result<()> {
        self.files.first().map_or(Ok(()), |file| file.storage.prepare())
    }

    fn verify(&self) -> Result<()> {
        // Files stay marked: another worker may still read from them.
        let mut touched = self.files.iter().filter(|file| file.touched.load(Ordering::SeqCst));
        touched.try_for_each(|file| file.storage.verify())
    }
}
