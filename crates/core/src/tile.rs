//! What a reduction sees at a time.

use crate::element::for_each_element;
use crate::{DType, Element, Error, LentBytes, Owner, Result, SigSlice};
use std::ops::Range;

/// The same signal slice of several frames: each frame's cells are one contiguous run, in
/// C order of the slice, and runs lie `stride` elements apart.
#[derive(Clone, Copy, Debug)]
pub struct FramesView<'a, T> {
    data: &'a [T],
    depth: usize,
    len: usize,
    stride: usize,
}

impl<'a, T: Element> FramesView<'a, T> {
    /// A view of `depth` runs of `len` elements, `stride` apart, from the start of `data`.
    ///
    /// # Errors
    /// `Bug` if `data` is too short, `stride < len`, or `len` or `depth` is 0.
    pub fn try_new(data: &'a [T], depth: usize, len: usize, stride: usize) -> Result<Self> {
        let needed = depth
            .checked_sub(1)
            .and_then(|gaps| gaps.checked_mul(stride))
            .and_then(|start| start.checked_add(len));
        match needed {
            Some(needed) if len > 0 && stride >= len && needed <= data.len() => {
                Ok(FramesView { data: &data[..needed], depth, len, stride })
            }
            _ => Err(Error::bug(format!(
                "a tile of {depth} frames of {len} elements, {stride} apart, does not fit {} elements",
                data.len()
            ))),
        }
    }

    /// The number of frames.
    #[inline(always)]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The number of cells of the slice, the same for every frame.
    #[inline(always)]
    pub fn frame_len(&self) -> usize {
        self.len
    }

    /// The distance between frames, in elements.
    #[inline(always)]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The cells of the `i`-th frame of the tile.
    ///
    /// # Panics
    /// If `i` is not below [`FramesView::depth`].
    // Loops are compiled for an instruction set only if all of it is inlined.
    #[inline(always)]
    pub fn frame(&self, i: usize) -> &'a [T] {
        let start = i * self.stride;
        &self.data[start..start + self.len]
    }

    /// The frames in order.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = &'a [T]> + '_ {
        (0..self.depth).map(|i| self.frame(i))
    }

    /// All cells as one slice, where there are no gaps between the frames.
    #[inline(always)]
    pub fn contiguous(&self) -> Option<&'a [T]> {
        (self.stride == self.len || self.depth == 1).then_some(self.data)
    }

    /// The underlying elements, gaps included.
    #[inline(always)]
    pub fn data(&self) -> &'a [T] {
        self.data
    }
}

macro_rules! define {
    ($(($variant:ident, $type:ty)),* $(,)?) => {
        /// The frames of a dense tile, by dtype.
        #[derive(Clone, Copy, Debug)]
        pub enum TileFrames<'a> {
            $(
                #[doc = concat!("Frames of dtype [`DType::", stringify!($variant), "`].")]
                $variant(FramesView<'a, $type>),
            )*
        }

        impl<'a> TileFrames<'a> {
            /// The dtype of the cells.
            pub fn dtype(&self) -> DType {
                match self { $(TileFrames::$variant(_) => DType::$variant,)* }
            }

            /// The number of frames.
            pub fn depth(&self) -> usize {
                match self { $(TileFrames::$variant(view) => view.depth(),)* }
            }

            /// The number of cells of one frame's slice.
            pub fn frame_len(&self) -> usize {
                match self { $(TileFrames::$variant(view) => view.frame_len(),)* }
            }

            /// The distance between frames, in elements.
            pub fn stride(&self) -> usize {
                match self { $(TileFrames::$variant(view) => view.stride(),)* }
            }

            /// The underlying bytes, gaps included.
            pub fn as_bytes(&self) -> &'a [u8] {
                match self { $(TileFrames::$variant(view) => bytemuck::cast_slice(view.data()),)* }
            }

            /// A view of native-endian `bytes` as frames of `dtype`.
            ///
            /// # Errors
            /// `Bug` if the bytes are not aligned for the dtype, or too few.
            pub fn from_bytes(
                dtype: DType,
                bytes: &'a [u8],
                depth: usize,
                len: usize,
                stride: usize,
            ) -> Result<Self> {
                match dtype {
                    $(DType::$variant => {
                        // A trailing partial element cannot be part of any frame.
                        let whole = bytes.len() - bytes.len() % size_of::<$type>();
                        let cells: &[$type] = bytemuck::try_cast_slice(&bytes[..whole])
                            .map_err(|e| Error::bug(format!("tile bytes as {dtype}: {e}")))?;
                        Ok(TileFrames::$variant(FramesView::try_new(cells, depth, len, stride)?))
                    })*
                }
            }
        }
    };
}
for_each_element!(define);

/// Runs `$body` with `$view` bound to the [`FramesView`] of a [`TileFrames`], whatever its
/// element type.
///
/// ```
/// use framefold_core::{Element, FramesView, dispatch_frames};
///
/// let frames = u16::wrap_frames(FramesView::try_new(&[1u16, 2, 3, 4], 2, 2, 2)?);
/// let cells = dispatch_frames!(frames, view => view.depth() * view.frame_len());
/// assert_eq!(cells, 4);
/// # Ok::<(), framefold_core::Error>(())
/// ```
#[macro_export]
macro_rules! dispatch_frames {
    ($frames:expr, $view:ident => $body:expr) => {
        match $frames {
            $crate::TileFrames::Bool($view) => $body,
            $crate::TileFrames::U8($view) => $body,
            $crate::TileFrames::U16($view) => $body,
            $crate::TileFrames::U32($view) => $body,
            $crate::TileFrames::U64($view) => $body,
            $crate::TileFrames::I8($view) => $body,
            $crate::TileFrames::I16($view) => $body,
            $crate::TileFrames::I32($view) => $body,
            $crate::TileFrames::I64($view) => $body,
            $crate::TileFrames::F16($view) => $body,
            $crate::TileFrames::F32($view) => $body,
            $crate::TileFrames::F64($view) => $body,
            $crate::TileFrames::C64($view) => $body,
            $crate::TileFrames::C128($view) => $body,
        }
    };
}

/// A dense tile as a reader hands it out.
///
/// Whether its memory may be seen beyond the tile's life is not to be claimed, but follows from
/// where it lies:
///
/// ```compile_fail,E0451
/// use framefold_core::{DenseTile, TileFrames};
/// use std::sync::Arc;
///
/// fn claim(frames: TileFrames<'_>) -> DenseTile<'_> {
///     DenseTile { frames, lent: None }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct DenseTile<'a> {
    frames: TileFrames<'a>,
    lent: Option<LentBytes>,
}

impl<'a> DenseTile<'a> {
    /// A tile in memory that ends with the tile.
    pub fn borrowed(frames: TileFrames<'a>) -> Self {
        DenseTile { frames, lent: None }
    }

    /// A tile in memory of `owner`, which keeps it alive and unchanged for as long as a clone of
    /// it is held.
    ///
    /// # Errors
    /// `Bug` if `frames` lie elsewhere.
    pub fn lent(frames: TileFrames<'a>, owner: Owner) -> Result<Self> {
        let lent = Some(LentBytes::try_new(frames.as_bytes(), owner)?);
        Ok(DenseTile { frames, lent })
    }

    /// The cells.
    pub fn frames(&self) -> TileFrames<'a> {
        self.frames
    }

    /// That it is what was asked for: `n_frames` frames of the cells `sig` in `dtype`. Sources of other crates
    /// may give anything.
    ///
    /// # Errors
    /// `Bug` that says what the source gave instead.
    pub fn check(&self, n_frames: usize, sig: &SigSlice, dtype: DType) -> Result<()> {
        let frames = &self.frames;
        let given = (frames.depth(), frames.frame_len(), frames.dtype());
        check_given(given, (n_frames, sig.len(), dtype))
    }

    /// The bytes of the cells, gaps included, to be shown beyond the tile's life; `None` if they
    /// end with it.
    pub fn lent_bytes(&self) -> Option<&LentBytes> {
        self.lent.as_ref()
    }
}

/// That a source gave the frames, the cells of each and the dtype that it was asked for.
///
/// # Errors
/// `Bug` if it did not.
pub(crate) fn check_given(
    given: (usize, usize, DType),
    asked: (usize, usize, DType),
) -> Result<()> {
    if given == asked {
        return Ok(());
    }
    let words = |(depth, len, dtype)| format!("{depth} frames of {len} cells of {dtype}");
    Err(Error::bug(format!("the source gave {} for {}", words(given), words(asked))))
}

/// Where a tile lies in its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TilePosition<'a> {
    /// The compressed indices of its frames, counted over the whole run.
    pub frames: Range<usize>,
    /// The same frames, counted from the start of the partition.
    pub in_partition: Range<usize>,
    /// The part of the signal axes it covers.
    pub sig: &'a SigSlice,
}

/// A tile in its place: what [`crate::Accumulator::process`] gets.
#[derive(Clone, Debug)]
pub struct Tile<'a> {
    /// Where it lies.
    pub position: TilePosition<'a>,
    /// What it holds, in the dtype the UDF was promised.
    pub data: DenseTile<'a>,
}

impl<'a> Tile<'a> {
    /// The cells.
    pub fn frames(&self) -> TileFrames<'a> {
        self.data.frames()
    }
}
