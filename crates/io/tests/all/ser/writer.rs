//! Writes series, from the description of the format alone.

use crate::oracle::Frames;
use framefold_core::DType;

/// How a series is to be written.
#[derive(Clone, Debug)]
pub struct Series {
    /// Offsets of 8 bytes.
    pub long: bool,
    /// Elements that were planned.
    pub n_planned: usize,
    /// The lengths of the scan's axes, fastest first.
    pub axes: Vec<usize>,
    /// Bytes between elements: the `i`-th is before the `i`-th element, again and again.
    pub gaps: Vec<usize>,
}

impl Series {
    pub fn of(frames: &Frames) -> Self {
        let n = frames.n_frames;
        Series { long: false, n_planned: n, axes: vec![n], gaps: vec![8] }
    }

    /// The file, with frames that are delivered with their first row first.
    pub fn write(&self, frames: &Frames) -> Vec<u8> {
        let is_image = frames.sig_shape.len() == 2;
        let mut out = vec![0x49, 0x49, 0x97, 0x01];
        out.extend(if self.long { 0x0220u16 } else { 0x0210 }.to_le_bytes());
        out.extend(if is_image { 0x4122u32 } else { 0x4120 }.to_le_bytes());
        out.extend(0x4152u32.to_le_bytes());
        out.extend((self.n_planned as u32).to_le_bytes());
        out.extend((frames.n_frames as u32).to_le_bytes());
        let place = out.len();
        out.extend(vec![0; self.offset_size()]);
        out.extend((self.axes.len() as u32).to_le_bytes());
        for &len in &self.axes {
            out.extend((len as u32).to_le_bytes());
            out.extend(0.0f64.to_le_bytes());
            out.extend(2.5f64.to_le_bytes());
            out.extend(0u32.to_le_bytes());
            for text in ["Position", "nm"] {
                out.extend((text.len() as u32).to_le_bytes());
                out.extend(text.as_bytes());
            }
        }
        let array = out.len();
        self.put(&mut out, place, array);
        // Offsets of elements, then of their tags.
        out.extend(vec![0; 2 * self.n_planned * self.offset_size()]);
        for frame in 0..frames.n_frames {
            out.extend(vec![0xEE; self.gaps[frame % self.gaps.len()]]);
            let at = out.len();
            self.put(&mut out, array + frame * self.offset_size(), at);
            for _ in &frames.sig_shape {
                out.extend([0; 20]);
            }
            out.extend(code(frames.stored.dtype).to_le_bytes());
            for &length in frames.sig_shape.iter().rev() {
                out.extend((length as u32).to_le_bytes());
            }
            let row = frames.size() * frames.sig_shape.last().unwrap();
            out.extend(frames.frame(frame).chunks(row).rev().flatten());
        }
        out
    }

    pub fn offset_size(&self) -> usize {
        if self.long { 8 } else { 4 }
    }

    fn put(&self, out: &mut [u8], at: usize, offset: usize) {
        let bytes = (offset as u64).to_le_bytes();
        out[at..at + self.offset_size()].copy_from_slice(&bytes[..self.offset_size()]);
    }
}

/// The dtypes of the format, in the order of their codes.
pub const DTYPES: [DType; 10] = [
    DType::U8,
    DType::U16,
    DType::U32,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::F32,
    DType::F64,
    DType::C64,
    DType::C128,
];

fn code(dtype: DType) -> i16 {
    1 + DTYPES.iter().position(|known| *known == dtype).unwrap() as i16
}
