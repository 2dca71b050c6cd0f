//! TIFF: one page per image, uncompressed, in the dtype of the result. Gaps are NaN, as in NPY.

use crate::field::{Field, is_calibrated};
use framefold::Result;
use framefold::core::Axis;
use framefold::io::{TiffLabels, TiffStep, write_tiff};
use std::io::{Seek, Write};

/// Writes `field`.
///
/// # Errors
/// `Unsupported` for complex numbers; `Limit` if a page is too large; `Io`.
pub(super) fn write(
    out: &mut (impl Write + Seek),
    field: &Field,
    labels: &TiffLabels,
) -> Result<()> {
    write_tiff(out, &*field.with_nan()?, field.n_channel_axes, labels)
}

/// The steps of the axes of a field's pages, where they are known.
pub(super) fn labels_of(field: &Field, title: &str) -> TiffLabels {
    let step = |axis: &Axis| {
        is_calibrated(axis).then(|| TiffStep {
            unit: axis.unit.clone(),
            scale: axis.scale,
            offset: axis.offset,
        })
    };
    let (y, x) = match &field.axes[..] {
        [.., y, x] => (step(y), step(x)),
        [x] => (None, step(x)),
        [] => (None, None),
    };
    TiffLabels { title: format!("{title}: {}", field.name), y, x, ome: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::tests::field;
    use framefold::core::{Bool8, Complex64, F16};
    use std::io::Cursor;
    use tiff::decoder::{Decoder, DecodingResult};

    fn written(field: &Field) -> Vec<((u32, u32), DecodingResult)> {
        let mut bytes = Cursor::new(Vec::new());
        write(&mut bytes, field, &TiffLabels::default()).unwrap();
        bytes.set_position(0);
        let mut decoder = Decoder::new(bytes).unwrap();
        let mut pages = vec![(decoder.dimensions().unwrap(), decoder.read_image().unwrap())];
        while decoder.more_images() {
            decoder.next_image().unwrap();
            pages.push((decoder.dimensions().unwrap(), decoder.read_image().unwrap()));
        }
        pages
    }

    #[test]
    fn integers_keep_their_dtype() {
        let pages = written(&field(&[2, 3], vec![1u16, 2, 3, 4, 5, 65535], 0, None));
        assert_eq!(pages.len(), 1);
        assert_eq!(pages[0].0, (3, 2));
        match &pages[0].1 {
            DecodingResult::U16(values) => assert_eq!(values[..], [1, 2, 3, 4, 5, 65535]),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pages_are_leading_axes_then_channels() {
        let values: Vec<f64> = (0..2 * 2 * 3 * 2).map(f64::from).collect();
        let pages = written(&field(&[2, 2, 3, 2], values, 1, None));
        assert_eq!(pages.len(), 4);
        let first = |page: usize| match &pages[page].1 {
            DecodingResult::F64(values) => values[..2].to_vec(),
            other => panic!("{other:?}"),
        };
        assert_eq!(first(0), [0.0, 2.0]);
        assert_eq!(first(1), [1.0, 3.0]);
        assert_eq!(first(2), [12.0, 14.0]);
    }

    #[test]
    fn gaps_are_nan() {
        let pages = written(&field(&[2], vec![9u8, 0], 0, Some(vec![true, false])));
        match &pages[0].1 {
            DecodingResult::F32(values) => assert!(values[0] == 9.0 && values[1].is_nan()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn foreign_dtypes_are_converted_or_refused() {
        let halves = vec![F16::from_f32(0.5), F16::from_f32(2.0)];
        match &written(&field(&[2], halves, 0, None))[0].1 {
            DecodingResult::F32(values) => assert_eq!(values[..], [0.5, 2.0]),
            other => panic!("{other:?}"),
        }
        match &written(&field(&[2], vec![Bool8(1), Bool8(0)], 0, None))[0].1 {
            DecodingResult::U8(values) => assert_eq!(values[..], [1, 0]),
            other => panic!("{other:?}"),
        }
        let complex = field(&[1], vec![Complex64::new(1.0, 1.0)], 0, None);
        let error =
            write(&mut Cursor::new(Vec::new()), &complex, &TiffLabels::default()).unwrap_err();
        assert_eq!(error.kind(), framefold::ErrorKind::Unsupported);
    }
}
