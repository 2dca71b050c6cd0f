//! One image of one file, in either order of its axes.

use super::images::{self, Image};
use super::tags::Tags;
use super::{FORCE_C_ORDER, FORMAT};
use crate::access::Storage;
use crate::headers::calibration::add_steps;
use crate::headers::geometry::FrameCount;
use crate::options::DATASET_INDEX;
use crate::options::OpenOptions;
use crate::readers::linear::frame_bytes;
use crate::readers::linear::{LinearFile, LinearSource, LinearSpec, Pixels};
use crate::readers::recut::{Axis, recut, suggested_nav_shape};
use crate::readers::strided::{StridedLayout, StridedSource, StridedSpec};
use framefold_core::{AxisKind, DataSource, Dataset, Error, MetadataList, Result, checked_product};
use std::path::Path;
use std::sync::Arc;

/// Opens the image of one file.
///
/// # Errors
/// As [`images::choose`]; `InvalidArgument` if frames of the wanted shape cannot be cut from it.
pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let storage = Storage::open(path, options.backend)?;
    let tags = Tags::read(&storage)?;
    let (image, mut warnings) = images::choose(&tags, options.count(&DATASET_INDEX))
        .map_err(|error| storage.locate(error))?;
    if image.is_colour {
        warnings.push(COLOURS.to_owned());
    }
    let order = Order::of(&image, options.is_on(&FORCE_C_ORDER));
    let doubt = order.doubt(&image.shape, image.order_swapped);
    warnings
        .extend(doubt.map(|doubt| format!("{doubt}; force_c_order takes it for the first ones")));
    let mut details =
        vec![("DM version".to_owned(), tags.version.to_string()), order.detail(&image)];
    details.extend(image.details.iter().cloned());
    let laid_out = LaidOut::try_new(image, order, options)?;
    details.extend(laid_out.others.iter().cloned());
    let count = FrameCount::within(laid_out.image.len_bytes, laid_out.frame_bytes);
    warnings.extend(count.warning(laid_out.frame_bytes));
    let source: Arc<dyn DataSource> = if order == Order::FramesTogether {
        laid_out.linear(storage, details, warnings)?
    } else {
        laid_out.transposed(storage, details, warnings)?
    };
    Dataset::try_new(source, options.nav_shape.as_deref(), options.sync_offset)
}

/// The warning about pixels that are no measure of anything.
pub(crate) const COLOURS: &str = "this is a picture in colours: its pixels are four bytes (blue, \
                                  green, red, alpha), read as one number each";

/// In which order the axes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Scan, then detector.
    FramesTogether,
    /// Detector, then scan.
    PositionsTogether,
}

impl Order {
    pub(super) fn of(image: &Image, force_c_order: bool) -> Order {
        if force_c_order {
            return Order::FramesTogether;
        }
        Order::of_axes(image.shape.len(), image.is_spectrum_image, image.order_swapped)
    }

    /// As the file says, or else as is usual for data of that kind; of two axes, frames are images, or
    /// spectra in rows, whatever it says.
    pub(crate) fn of_axes(n_axes: usize, is_spectrum_image: bool, swapped: Option<bool>) -> Order {
        if n_axes <= 2 {
            return Order::FramesTogether;
        }
        let usual = n_axes == 3 && !is_spectrum_image;
        if swapped.unwrap_or(usual) { Order::FramesTogether } else { Order::PositionsTogether }
    }

    /// A word about files that could have been meant the other way round.
    pub(crate) fn doubt(self, shape: &[usize], swapped: Option<bool>) -> Option<String> {
        let doubtful = swapped.is_none() && self == Order::PositionsTogether;
        doubtful.then(|| {
            format!(
                "the file does not say in which order its axes {shape:?} are: as usual for such \
                 data, the scan is taken for the last ones"
            )
        })
    }

    fn detail(self, image: &Image) -> (String, String) {
        let text = match self {
            Order::FramesTogether => "frame by frame",
            Order::PositionsTogether => "transposed: all scan positions of a pixel lie together",
        };
        let says = image.order_swapped.is_some() && image.shape.len() > 2;
        let why = if says { "as the file says" } else { "by convention" };
        ("data order".to_owned(), format!("{text} ({why})"))
    }
}

/// An image, cut into frames.
struct LaidOut {
    image: Image,
    sig_shape: Vec<usize>,
    nav_shape: Vec<usize>,
    /// Its axes, scan first, as they lie in the file.
    axes: Vec<Axis>,
    frame_bytes: u64,
    metadata: MetadataList,
    /// Steps in units that are not known, in the words of the file.
    others: Vec<(String, String)>,
}

impl LaidOut {
    fn try_new(image: Image, order: Order, options: &OpenOptions) -> Result<Self> {
        let n_sig = if image.is_spectrum_image { 1 } else { 2 }.min(image.shape.len());
        let mut stride = u64::try_from(image.stored.dtype.size()).unwrap_or(u64::MAX);
        let mut axes = Vec::new();
        for &len in image.shape.iter().rev() {
            axes.push(Axis { len, stride });
            // Stays below the size of the image, which fits.
            stride = stride.saturating_mul(u64::try_from(len).unwrap_or(u64::MAX));
        }
        axes.reverse();
        let mut steps = image.steps.clone();
        if order == Order::PositionsTogether {
            axes.rotate_left(n_sig);
            steps.rotate_left(n_sig);
        }
        let mut metadata = image.metadata.clone();
        let mut others = Vec::new();
        // The rows of a spectrum that is shown as an image are no places, and its lengths wavelengths.
        let n_steps = if image.is_spectrum { 1 } else { n_sig };
        let n_nav = steps.len() - n_sig;
        steps.iter_mut().skip(n_nav).take(n_sig - n_steps).for_each(|step| *step = None);
        if let Some((nav, sig)) = steps.split_at_checked(n_nav + n_sig - n_steps) {
            others = add_steps(&mut metadata, nav, sig);
            // A spectrum that is shown as an image has its energies on the axis of columns.
            if n_steps < n_sig
                && let Some(Some(step)) = sig.last()
                && let Some(plain) = step.plain()
            {
                metadata.calibrate(AxisKind::Sig, 0, plain);
            }
        }
        let shape: Vec<usize> = axes.iter().map(|axis| axis.len).collect();
        let own = shape.get(shape.len() - n_sig..).unwrap_or_default();
        let sig_shape = options.sig_shape.clone().unwrap_or_else(|| own.to_vec());
        let frame_bytes = frame_bytes(&sig_shape, image.stored)?;
        if frame_bytes > image.len_bytes {
            return Err(Error::invalid(format!(
                "a frame of shape {sig_shape:?} is larger than the whole image of shape {:?}",
                image.shape
            ))
            .with_hint("check sig_shape"));
        }
        let nav_shape = suggested_nav_shape(&shape, &sig_shape);
        let own_scan = shape.get(..shape.len() - n_sig).unwrap_or_default();
        metadata.lay_out(AxisKind::Sig, own, &sig_shape);
        metadata.lay_out(AxisKind::Nav, own_scan, &nav_shape);
        Ok(LaidOut { image, sig_shape, nav_shape, axes, frame_bytes, metadata, others })
    }

    fn linear(
        self,
        storage: Storage,
        details: Vec<(String, String)>,
        warnings: Vec<String>,
    ) -> Result<Arc<dyn DataSource>> {
        Ok(Arc::new(LinearSource::try_new(LinearSpec {
            format: FORMAT.name,
            files: vec![LinearFile {
                storage,
                frames: 0..self.image.len_bytes / self.frame_bytes,
                first_pixel: self.image.offset,
                stride: self.frame_bytes,
            }],
            pixels: Pixels::Plain { stored: self.image.stored },
            sig_shape: self.sig_shape,
            nav_shape: self.nav_shape,
            metadata: self.metadata,
            details,
            warnings,
        })?))
    }

    fn transposed(
        self,
        storage: Storage,
        details: Vec<(String, String)>,
        warnings: Vec<String>,
    ) -> Result<Arc<dyn DataSource>> {
        let n_cells = checked_product(&self.sig_shape).unwrap_or(u64::MAX);
        let (nav_axes, sig_axes) = recut(&self.axes, n_cells)?;
        Ok(Arc::new(StridedSource::try_new(StridedSpec {
            format: FORMAT.name,
            storage,
            layout: StridedLayout {
                stored: self.image.stored,
                first_byte: self.image.offset,
                nav_axes,
                sig_axes,
            },
            sig_shape: self.sig_shape,
            nav_shape: self.nav_shape,
            metadata: self.metadata,
            details,
            warnings,
        })?))
    }
}
