//! MRC: images of electron microscopes (MRC2014 and older), and movies of Direct Electron cameras.
//!
//! | offset | type | content |
//! |---|---|---|
//! | 0, 4, 8 | i32 | NX, NY, NZ: columns, rows, images |
//! | 12 | i32 | mode, see below |
//! | 28, 32, 36 | i32 | MX, MY, MZ: samples of a cell; here only for the size of a pixel |
//! | 40, 44, 48 | f32 | size of a cell in x, y and z, 1/10 nm |
//! | 88 | i32 | space group: 0 for images, 1 to 230 for volumes, whose images are `depth` apart if MZ is NZ |
//! | 92 | i32 | bytes of the extended header, which follows this one |
//! | 152, 156 | i32 | 1146047817 if IMOD wrote it, and its flags: bit 0 says that mode 0 is signed |
//! | 208 | 4 bytes | `MAP `; files from before 2000 lack it |
//! | 212 | 4 bytes | byte order: `44 44` or `44 41` little, `11 11` big endian |
//! | 220 | i32 | number of labels |
//! | 224 | 80 bytes each | labels |
//! | 1024 | | extended header, then images one after the other |
//!
//! | mode | pixels |
//! |---|---|
//! | 0 | i8, or u8: MRC2014 says signed; IMOD's flag and the option `dtype` say otherwise |
//! | 1, 2, 6, 12 | i16, f32, u16, f16 |
//! | 4 | complex of f32 |
//!
//! The shape of a scan is not in the file. Movies of Direct Electron come with a text file that
//! tells it, see `direct_electron`. Known writers: IMOD, SerialEM, Velox, mrcfile, ncempy, DE
//! Server. Limits: modes 3 (complex of i16), 16 (colours) and 101 (4 bits), and MRCZ, are refused; of extended headers, only
//! those in `fei` and `agard` are read; rows are delivered as they are stored, whatever the axis numbers say.

mod agard;
mod direct_electron;
mod fei;
mod header;

use crate::access::Storage;
use crate::format::{Format, Prefix, Verdict};
use crate::headers::geometry::{FrameCount, sig_shape};
use crate::options;
use crate::options::{Backend, OpenOptions};
use crate::readers::linear::swap_in_place;
use crate::readers::linear::{LinearFile, LinearSource, LinearSpec, Pixels};
use framefold_core::{AxisKind, Dataset, Error, NativeArray, Result, TypedVec, checked_product};
use header::Header;
use std::path::Path;
use std::sync::Arc;

/// The registry's entry.
pub(crate) const FORMAT: Format = Format {
    name: "mrc",
    title: "MRC images",
    extensions: &["mrc", "mrcs", "map", "st", "rec", "ali"],
    options: &[
        options::NAV_SHAPE,
        options::SIG_SHAPE,
        options::SYNC_OFFSET,
        options::IO_BACKEND,
        options::DTYPE,
    ],
    detect: &detect,
    open: &open,
};

fn detect(prefix: &Prefix<'_>) -> Verdict {
    let marked = prefix.bytes.get(208..212) == Some(b"MAP ");
    let named = FORMAT.extensions.contains(&prefix.extension().as_str());
    if !marked && !named {
        return Verdict::No("there is no 'MAP ' at byte 208".into());
    }
    match Header::parse(prefix.bytes) {
        Ok(header) if marked => Verdict::Match(format!("it has 'MAP ' at byte 208 and {header}")),
        // What is wrong with it is for opening to say.
        Err(problem) if marked => {
            Verdict::Match(format!("it has 'MAP ' at byte 208, but {}", problem.message()))
        }
        Ok(header) if header.first_pixel().saturating_add(header.frame_bytes()) <= prefix.len => {
            Verdict::Match(format!("its header has {header}, which fit into the file"))
        }
        Ok(header) => Verdict::No(format!("its header would have {header}, which do not fit")),
        Err(problem) => Verdict::No(format!("as an MRC header, {}", problem.message())),
    }
}

fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let storage = Storage::open(path, options.backend)?;
    let mut header = Header::read(&storage)?;
    header.use_dtype(options.dtype(&options::DTYPE))?;
    let (first_pixel, frame) = (header.first_pixel(), header.frame_bytes());
    let count = FrameCount::try_new(storage.len(), first_pixel, frame, frame)?;
    let (n_frames, warning) = count.promised(header.n_images, frame);
    let mut warnings: Vec<String> = warning.into_iter().collect();
    let mut metadata = header.metadata(&storage)?;
    let mut details = header.details();
    let mut nav_shape = vec![usize::try_from(n_frames).unwrap_or(usize::MAX)];
    // Positions that the scan has and the file has not, where it was stopped.
    let mut not_reached = None;
    match direct_electron::find(path) {
        Ok(None) => {}
        Ok(Some((info_path, info))) => {
            details.push(("sidecar".to_owned(), info_path.display().to_string()));
            let scan = info.nav_shape(n_frames);
            details.extend(info.add_to(&mut metadata, scan.as_ref(), options.nav_shape.is_some()));
            if let Some(scan) = scan {
                let n_positions = checked_product(&scan.shape).unwrap_or(u64::MAX);
                not_reached = n_positions.checked_sub(n_frames).filter(|&n| n > 0);
                nav_shape = scan.shape;
                if options.nav_shape.is_none() {
                    warnings.extend(scan.warning);
                }
            }
        }
        Err(error) => warnings.push(format!("the _info.txt file is not used: {error}")),
    }
    let sig_shape = sig_shape(&header.sig_shape(), options)?;
    metadata.lay_out(AxisKind::Sig, &header.sig_shape(), &sig_shape);
    let source = LinearSource::try_new(LinearSpec {
        format: FORMAT.name,
        files: vec![LinearFile { storage, frames: 0..n_frames, first_pixel, stride: frame }],
        pixels: Pixels::Plain { stored: header.stored },
        sig_shape,
        nav_shape,
        metadata,
        details,
        warnings,
    })?;
    let dataset =
        Dataset::try_new(Arc::new(source), options.nav_shape.as_deref(), options.sync_offset)?;
    Ok(dataset.with_lost_frames(count.lost_by_a_cut(header.n_images).max(not_reached)))
}

/// The first image of a file, for dark frames and gain maps.
///
/// Cameras write these with a number of images that is not true; there is one.
///
/// # Errors
/// As opening the file.
pub(crate) fn read_image(path: &Path) -> Result<NativeArray> {
    let read = || {
        let storage = Storage::open(path, Backend::Buffered)?;
        let header = Header::read(&storage)?;
        FrameCount::try_new(
            storage.len(),
            header.first_pixel(),
            header.frame_bytes(),
            header.frame_bytes(),
        )?;
        let shape = header.sig_shape();
        let mut values = TypedVec::zeros(header.stored.dtype, shape.iter().product());
        storage.read_at(header.first_pixel(), values.as_bytes_mut())?;
        swap_in_place(header.stored, values.as_bytes_mut());
        NativeArray::try_new(&shape, values)
    };
    read().map_err(|error: Error| error.with_path(path).with_format(FORMAT.name))
}
