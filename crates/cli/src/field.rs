//! A result buffer laid out for people: in the shape of the scan, with its gaps known.

use crate::numbers::{components, reals};
use crate::render::{MISSING, Picture, Plane};
use framefold::core::{Axis, AxisKind, BufferKind, COLOUR, DType, NativeArray, TypedVec};
use framefold::exec::{ResultBuffer, expand_nav};
use framefold::kernels::{Look, Reduction};
use framefold::{Error, Result, RunResults, Shape};
use std::borrow::Cow;

/// A result buffer with all that is needed to write and draw it.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// The buffer's name.
    pub name: String,
    /// Its kind: `nav` buffers have an entry per scan position, or per selected one.
    pub kind: BufferKind,
    /// Its values; entries without data are NaN, or 0 if the dtype has no NaN.
    pub array: NativeArray,
    /// The number of trailing axes that count channels rather than pixels.
    pub n_channel_axes: usize,
    /// What they mean.
    pub look: Look,
    /// What they are measured in.
    pub unit: Option<&'static str>,
    /// One truth value per entry of the leading axes: whether there is data; a single one for all of
    /// a result without any. `None` if all are.
    pub valid: Option<Vec<bool>>,
    /// The axes that are not channels, with their steps and units.
    pub axes: Vec<Axis>,
    /// The axis of colours, which is the first one of the channels if there is one.
    pub colours: Option<Axis>,
}

/// Two planes of one page: values, or y and x components.
#[derive(Clone, Debug)]
pub(crate) enum Page {
    /// Real numbers.
    Scalars(Plane),
    /// Vectors, or complex numbers as (imaginary, real).
    Vectors(Plane, Plane),
}

/// The pages that show one quantity, and so share a scale.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    /// In C order of the leading axes.
    pub pages: Vec<Page>,
}

impl Field {
    /// Lays out `buffer` of `reduction`. Buffers of kind `nav` get the shape of the scan; frames that were
    /// selected by a ROI stay a stack in scan order instead, or they would drown in gaps.
    ///
    /// `axes` are those of the data set.
    ///
    /// # Errors
    /// `Bug` if the buffer is not what it was declared to be.
    pub(crate) fn try_new(
        buffer: ResultBuffer,
        results: &RunResults,
        reduction: &Reduction,
        axes: &[Axis],
    ) -> Result<Self> {
        let look = reduction.look;
        let n_extra = buffer.decl.extra_shape.len();
        let array = buffer.array.try_native()?;
        let is_vector = look == Look::Vectors && buffer.decl.extra_shape == [2];
        let look = if look == Look::Vectors && !is_vector { Look::Values } else { look };
        // A stack of frames has an entry per selected position, whatever kind it was declared as.
        let kind = if look == Look::Frames { BufferKind::Nav } else { buffer.decl.kind };
        let (array, valid) = match (kind, &results.roi) {
            // Of a run that has seen no frame, nothing is a result.
            (BufferKind::Sig | BufferKind::Single, _) if !results.valid.contains(&true) => {
                let missing = TypedVec::try_missing(array.dtype(), array.values().len())?;
                (NativeArray::try_new(array.shape(), missing)?, Some(vec![false]))
            }
            (BufferKind::Sig | BufferKind::Single, _) => (array, None),
            (BufferKind::Nav, Some(_)) if look == Look::Frames => {
                let stack = Shape::try_new(&[results.valid.len()], results.shape.sig())?;
                (expand_nav(&array, &stack, None, &results.valid)?, Some(results.valid.clone()))
            }
            (BufferKind::Nav, _) => (results.expand_nav(&array)?, Some(results.valid_nav()?)),
        };
        // Colours are channels of a pixel, not places in a frame.
        let colours = axes.last().filter(|axis| axis.name == COLOUR);
        let n_colour_axes = usize::from(colours.is_some());
        let axes = axes.get(..axes.len() - n_colour_axes).unwrap_or_default();
        let has_colours = look == Look::Frames || kind == BufferKind::Sig;
        let n_channel_axes = match (kind, look) {
            (BufferKind::Single, _) => 0,
            (_, Look::Frames) => n_colour_axes,
            (BufferKind::Sig, _) => n_extra + n_colour_axes,
            (BufferKind::Nav, _) => n_extra,
        };
        let shape = array.shape();
        let base = shape.get(..shape.len().saturating_sub(n_channel_axes)).unwrap_or_default();
        Ok(Field {
            name: buffer.decl.name,
            axes: axes_of(base, kind, look, axes),
            colours: colours.filter(|_| has_colours).cloned(),
            kind,
            array,
            n_channel_axes,
            look,
            unit: reduction.unit,
            valid: valid.filter(|valid| valid.contains(&false)),
        })
    }

    /// The number of values that belong to each entry of `valid`.
    pub(crate) fn entry_len(&self) -> usize {
        let n_entries = self.valid.as_ref().map_or(1, Vec::len);
        self.array.values().len().checked_div(n_entries).unwrap_or(0)
    }

    /// Whether the value at flat index `cell` has data.
    pub(crate) fn has_data(&self, cell: usize) -> bool {
        let entry = cell / self.entry_len().max(1);
        self.valid.as_ref().is_none_or(|valid| valid.get(entry) == Some(&true))
    }

    /// The array with NaN in every gap. Integers with gaps become floats that hold them exactly.
    ///
    /// # Errors
    /// `Unsupported` if no float can hold the integers.
    pub(crate) fn with_nan(&self) -> Result<Cow<'_, NativeArray>> {
        let dtype = self.array.dtype();
        let has_nan = dtype.is_float() || dtype.is_complex();
        let Some(valid) = self.valid.as_ref().filter(|_| !has_nan) else {
            return Ok(Cow::Borrowed(&self.array));
        };
        if !fits_f64(self.array.values()) {
            return Err(Error::unsupported(format!(
                "'{}' has positions without data, and its integers are too large for a float",
                self.name
            ))
            .with_hint("write a .npz file: it keeps integers and holds a mask 'valid'"));
        }
        let mut values = reals(self.array.values());
        let entry_len = self.entry_len().max(1);
        for (entry, _) in values.chunks_mut(entry_len).zip(valid).filter(|(_, valid)| !**valid) {
            entry.fill(f64::NAN);
        }
        let values = if dtype.size() <= 2 {
            TypedVec::from(values.into_iter().map(|value| value as f32).collect::<Vec<f32>>())
        } else {
            TypedVec::from(values)
        };
        NativeArray::try_new(self.array.shape(), values).map(Cow::Owned)
    }

    /// The axes that are not channels.
    pub(crate) fn base_shape(&self) -> &[usize] {
        let shape = self.array.shape();
        &shape[..shape.len().saturating_sub(self.n_channel_axes)]
    }

    /// Height and width of a page: the last two axes, or one row of the only one.
    pub(crate) fn page_shape(&self) -> (usize, usize) {
        match self.base_shape() {
            [.., height, width] => (*height, *width),
            [width] => (1, *width),
            [] => (1, 1),
        }
    }

    /// The axes of a page (y, x), if it has two and any of them is calibrated.
    pub(crate) fn page_axes(&self) -> Option<(&Axis, &Axis)> {
        let [.., y, x] = &self.axes[..] else { return None };
        (is_calibrated(y) || is_calibrated(x)).then_some((y, x))
    }

    /// What channels are called: nothing, if there is one, otherwise `[0]`, `[0, 1]`.
    pub(crate) fn channel_names(&self) -> Vec<String> {
        let shape = self.array.shape();
        indices(shape.get(self.base_shape().len()..).unwrap_or_default())
    }

    /// The same for pages.
    pub(crate) fn page_names(&self) -> Vec<String> {
        let base = self.base_shape();
        indices(base.get(..base.len().saturating_sub(2)).unwrap_or_default())
    }

    /// How many bytes each pixel has, if they are its colour: 3 for red, green and blue, 4 with
    /// opacity.
    pub(crate) fn n_colours(&self) -> Option<usize> {
        let (shape, base) = (self.array.shape(), self.base_shape());
        match shape.get(base.len()..)? {
            &[n @ (3 | 4)] if base.len() > 1 && self.array.dtype() == DType::U8 => Some(n),
            _ => None,
        }
    }

    /// The pages of pixels that are colours; gaps are transparent.
    pub(crate) fn coloured(&self) -> Option<Vec<Picture>> {
        let n_colours = self.n_colours()?;
        let values = self.array.as_slice::<u8>().ok()?;
        let (height, width) = self.page_shape();
        let page_len = height * width * n_colours;
        let page = |page: usize| {
            Picture::from_fn(width, height, |y, x| {
                let cell = page * page_len + (y * width + x) * n_colours;
                match values.get(cell..cell + n_colours).filter(|_| self.has_data(cell)) {
                    Some(&[red, green, blue]) => [red, green, blue, u8::MAX],
                    Some(&[red, green, blue, opacity]) => [red, green, blue, opacity],
                    _ => MISSING,
                }
            })
        };
        Some((0..values.len().checked_div(page_len).unwrap_or(0)).map(page).collect())
    }

    /// The planes to draw; gaps are NaN.
    pub(crate) fn channels(&self) -> Vec<Channel> {
        let (mut re, mut im) = components(self.array.values());
        if let Some(valid) = &self.valid {
            let entry_len = self.entry_len().max(1);
            for values in [&mut re, &mut im] {
                let entries = values.chunks_mut(entry_len).zip(valid);
                for (entry, _) in entries.filter(|(_, valid)| !**valid) {
                    entry.fill(f64::NAN);
                }
            }
        }
        let (height, width) = self.page_shape();
        let page_len = height * width;
        let n_base: usize = self.base_shape().iter().product();
        let n_channels = re.len().checked_div(n_base).unwrap_or(0);
        let n_pages = n_base.checked_div(page_len).unwrap_or(0);
        let plane = |values: &[f64], page: usize, channel: usize| {
            let cells = page * page_len..(page + 1) * page_len;
            Plane::new(width, cells.map(|cell| values[cell * n_channels + channel]).collect())
        };
        if self.look == Look::Vectors {
            let page = |page| Page::Vectors(plane(&re, page, 0), plane(&re, page, 1));
            return vec![Channel { pages: (0..n_pages).map(page).collect() }];
        }
        let is_complex = self.array.dtype().is_complex();
        let page = |page, channel| {
            if is_complex {
                Page::Vectors(plane(&im, page, channel), plane(&re, page, channel))
            } else {
                Page::Scalars(plane(&re, page, channel))
            }
        };
        (0..n_channels)
            .map(|channel| Channel { pages: (0..n_pages).map(|p| page(p, channel)).collect() })
            .collect()
    }
}

/// Whether anything is known of where positions are.
pub(crate) fn is_calibrated(axis: &Axis) -> bool {
    (axis.scale, axis.offset, axis.unit.as_str()) != (1.0, 0.0, "")
}

/// The axes of a result of shape `base`: those of the scan or of frames, others are counted.
fn axes_of(base: &[usize], kind: BufferKind, look: Look, axes: &[Axis]) -> Vec<Axis> {
    let of = |kind: AxisKind| axes.iter().filter(move |axis| axis.kind == kind).cloned();
    let known: Vec<Axis> = match (kind, look) {
        (BufferKind::Single, _) => vec![],
        // Selected ones of a scan of several axes are a stack along none of them.
        (_, Look::Frames) if base.len() < axes.len() => of(AxisKind::Sig).collect(),
        (_, Look::Frames) => of(AxisKind::Nav).chain(of(AxisKind::Sig)).collect(),
        (BufferKind::Nav, _) => of(AxisKind::Nav).collect(),
        (BufferKind::Sig, _) => of(AxisKind::Sig).collect(),
    };
    // The last ones belong together, as the first one may be a stack of selected frames.
    let missing = base.len().saturating_sub(known.len());
    let all = std::iter::repeat_n(None, missing).chain(known.into_iter().map(Some));
    let counted = |number: usize, size: usize| Axis {
        name: format!("index_{number}"),
        kind: AxisKind::Nav,
        size,
        scale: 1.0,
        offset: 0.0,
        unit: String::new(),
    };
    let fits = |axis: Option<Axis>, size: usize| axis.filter(|axis| axis.size == size);
    base.iter()
        .zip(all)
        .enumerate()
        .map(|(i, (&size, axis))| fits(axis, size).unwrap_or_else(|| counted(i, size)))
        .collect()
}

/// All indices into `shape`, as they are written; one empty text if there is but one.
fn indices(shape: &[usize]) -> Vec<String> {
    let n: usize = shape.iter().product();
    if n == 1 {
        return vec![String::new()];
    }
    let index = |flat: usize| {
        let mut rest = flat;
        let mut place = Vec::with_capacity(shape.len());
        for &len in shape.iter().rev() {
            place.push((rest % len).to_string());
            rest /= len;
        }
        place.reverse();
        format!("[{}]", place.join(", "))
    };
    (0..n).map(index).collect()
}

/// Whether every value is one that `f64` holds exactly.
fn fits_f64(values: &TypedVec) -> bool {
    match values {
        TypedVec::U64(values) => values.iter().all(|&value| value as f64 as u128 == value.into()),
        TypedVec::I64(values) => values.iter().all(|&value| value as f64 as i128 == value.into()),
        _ => true,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A field of values of kind `nav`.
    pub(crate) fn field(
        shape: &[usize],
        values: impl Into<TypedVec>,
        n_channel_axes: usize,
        valid: Option<Vec<bool>>,
    ) -> Field {
        Field {
            name: "x".into(),
            kind: BufferKind::Nav,
            array: NativeArray::try_new(shape, values).unwrap(),
            n_channel_axes,
            look: Look::Values,
            unit: None,
            valid,
            axes: axes_of(
                &shape[..shape.len() - n_channel_axes],
                BufferKind::Nav,
                Look::Values,
                &[],
            ),
            colours: None,
        }
    }

    #[test]
    fn integers_with_gaps_become_floats() {
        let gaps = Some(vec![true, false]);
        let small = field(&[2], vec![7u16, 0], 0, gaps.clone());
        let array = small.with_nan().unwrap().into_owned();
        let values = array.as_slice::<f32>().unwrap();
        assert!(values[0] == 7.0 && values[1].is_nan());
        let large = field(&[2], vec![u32::MAX, 0], 0, gaps.clone());
        let array = large.with_nan().unwrap().into_owned();
        assert_eq!(array.as_slice::<f64>().unwrap()[0], f64::from(u32::MAX));
        let exact = field(&[2], vec![1u64 << 63, 0], 0, gaps.clone());
        assert!(exact.with_nan().is_ok());
        let odd = field(&[2], vec![(1u64 << 53) + 1, 0], 0, gaps.clone());
        assert_eq!(odd.with_nan().unwrap_err().kind(), framefold::ErrorKind::Unsupported);
        assert!(field(&[2], vec![u64::MAX, u64::MAX - 1], 0, gaps).with_nan().is_err());
    }

    #[test]
    fn without_gaps_nothing_changes() {
        let field = field(&[2], vec![1u8, 2], 0, None);
        assert_eq!(field.with_nan().unwrap().dtype(), DType::U8);
    }

    #[test]
    fn channels_are_separated_and_gaps_are_nan() {
        let values = vec![1i32, 10, 2, 20, 3, 30, 4, 40];
        let valid = Some(vec![true, true, false, true]);
        let field = field(&[2, 2, 2], values, 1, valid);
        let channels = field.channels();
        let plane = |channel: usize| match &channels[channel].pages[0] {
            Page::Scalars(plane) => plane.values().to_vec(),
            other => panic!("{other:?}"),
        };
        assert_eq!(plane(0)[..2], [1.0, 2.0]);
        assert!(plane(0)[2].is_nan() && plane(1)[2].is_nan());
        assert_eq!(plane(1)[3], 40.0);
        assert_eq!(channels.len(), 2);
    }

    #[test]
    fn three_or_four_bytes_are_a_colour() {
        let three = field(&[1, 2, 3], vec![1u8, 2, 3, 4, 5, 6], 1, Some(vec![true, false]));
        assert_eq!(three.coloured().unwrap()[0].pixels(), [[1, 2, 3, 255], MISSING]);
        let four = field(&[2, 1, 1, 4], (1..9u8).collect::<Vec<_>>(), 1, None);
        let pages = four.coloured().unwrap();
        assert_eq!(
            (pages[0].pixels(), pages[1].pixels()),
            (&[[1, 2, 3, 4]][..], &[[5, 6, 7, 8]][..])
        );
        for other in [
            field(&[1, 2, 3], vec![0u16; 6], 1, None),
            field(&[1, 2, 3], vec![0u8; 6], 0, None),
            field(&[1, 3, 2], vec![0u8; 6], 1, None),
            field(&[2, 3], vec![0u8; 6], 1, None),
            field(&[1, 1, 2, 3], vec![0u8; 6], 2, None),
        ] {
            assert!(other.coloured().is_none(), "{:?}", other.array.shape());
        }
    }

    #[test]
    fn leading_axes_become_pages() {
        let field = field(&[3, 2, 2], (0..12u8).collect::<Vec<_>>(), 0, None);
        let channels = field.channels();
        assert_eq!(channels.len(), 1);
        match &channels[0].pages[2] {
            Page::Scalars(plane) => assert_eq!(plane.values(), [8.0, 9.0, 10.0, 11.0]),
            other => panic!("{other:?}"),
        }
    }
}
