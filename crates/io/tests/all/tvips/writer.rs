//! Writes series, from the description of the format alone.

use crate::oracle::Frames;
use std::path::{Path, PathBuf};

/// How a series is to be written.
#[derive(Clone, Debug)]
pub struct Series {
    pub version: u32,
    /// Bytes before the pixels of a frame.
    pub frame_header: usize,
    /// The position of each frame: y, x.
    pub positions: Vec<(u16, u16)>,
    /// How many frames each file holds.
    pub files: Vec<usize>,
}

impl Series {
    pub fn of(frames: &Frames) -> Self {
        let (positions, files) = (vec![(0, 0); frames.n_frames], vec![frames.n_frames]);
        Series { version: 2, frame_header: 80, positions, files }
    }

    /// The bytes of each file.
    pub fn write(&self, frames: &Frames) -> Vec<Vec<u8>> {
        let mut header = vec![];
        let bits = 8 * frames.size() as u32;
        let (height, width) = (frames.sig_shape[0] as u32, frames.sig_shape[1] as u32);
        let frame_header = self.frame_header as u32;
        for field in
            [256, self.version, width, height, bits, 0, 0, 2, 4, 15_500, 200, 80, frame_header]
        {
            header.extend(field.to_le_bytes());
        }
        header.resize(256, b'x');
        let mut frame = 0;
        let one_file = |(index, &n): (usize, &usize)| {
            let mut out = if index == 0 { header.clone() } else { Vec::new() };
            for frame in frame..frame + n {
                let start = out.len();
                out.extend((100 + frame as u32).to_le_bytes());
                out.extend([0; 24]);
                out.extend(1500.0f32.to_le_bytes());
                out.resize(start + 68, 0);
                let (y, x) = self.positions[frame];
                out.extend(f32::from(x).to_le_bytes());
                out.extend(f32::from(y).to_le_bytes());
                out.resize(start + self.frame_header, 0);
                out.extend(frames.frame(frame));
            }
            frame += n;
            out
        };
        self.files.iter().enumerate().map(one_file).collect()
    }

    /// Writes the files; gives their paths.
    pub fn save(&self, frames: &Frames, folder: &Path) -> Vec<PathBuf> {
        let save = |(index, bytes): (usize, Vec<u8>)| {
            let path = folder.join(format!("scan_{index:03}.tvips"));
            std::fs::write(&path, bytes).unwrap();
            path
        };
        self.write(frames).into_iter().enumerate().map(save).collect()
    }
}
