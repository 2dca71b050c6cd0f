//! Writes MIB files, in the plainest way: pixel by pixel.

/// What a file holds.
#[derive(Clone, Debug)]
pub struct Mode {
    /// The pixel format field.
    pub kind: &'static str,
    /// Bits per counter.
    pub depth: u32,
    /// Number of chips: 1 or 4.
    pub chips: usize,
    /// The sensor layout field.
    pub layout: &'static str,
    /// Rows and columns of the frame (without inserted gap).
    pub shape: [usize; 2],
}

impl Mode {
    /// A processed frame.
    pub fn plain(kind: &'static str, shape: [usize; 2]) -> Self {
        let depth = match kind {
            "U08" => 6,
            "U16" => 12,
            _ => 24,
        };
        Mode { kind, depth, chips: 1, layout: "1x1", shape }
    }

    /// A raw frame of one chip.
    pub fn raw(depth: u32, shape: [usize; 2]) -> Self {
        Mode { kind: "R64", depth, chips: 1, layout: "1x1", shape }
    }

    /// A raw frame of 2x2 chips.
    pub fn quad(depth: u32, shape: [usize; 2]) -> Self {
        Mode { kind: "R64", depth, chips: 4, layout: "2x2", shape }
    }

    /// Bytes of a header.
    pub fn header_len(&self) -> usize {
        if self.chips == 1 { 384 } else { 768 }
    }

    /// The largest value of a pixel, plus 1.
    pub fn limit(&self) -> u32 {
        1 << self.depth
    }

    /// Width and height fields.
    fn stored_size(&self) -> (usize, usize) {
        let [rows, columns] = self.shape;
        match (self.kind, self.chips, self.depth) {
            ("R64", 4, _) => (2 * columns, rows / 2),
            ("R64", _, 24) => (2 * columns, rows),
            _ => (columns, rows),
        }
    }

    /// The header of the frame with this sequence number.
    pub fn header(&self, sequence: u64) -> Vec<u8> {
        let (width, height) = self.stored_size();
        let mask = if self.chips == 4 { "0F" } else { "01" };
        let text = format!(
            "MQ1,{sequence:06},{:05},{:02},{width:04},{height:04},{},{:>6},{mask},\
             2021-04-15 14:44:05.183741,0.001000,0,0,0,2.0E+0,5.11E+2,0,0,0,0,0,0,3RX,011,511,\
             MQ1A,2021-04-15T13:44:05.183741931Z,1000000ns,{},",
            self.header_len(),
            self.chips,
            self.kind,
            self.layout,
            self.depth
        );
        let mut bytes = text.into_bytes();
        bytes.resize(self.header_len(), 0);
        bytes
    }

    /// The pixels of one frame as they are stored.
    pub fn payload(&self, frame: &[u32]) -> Vec<u8> {
        let [rows, columns] = self.shape;
        assert_eq!(frame.len(), rows * columns);
        match self.kind {
            "U08" => frame.iter().map(|&v| u8::try_from(v).unwrap()).collect(),
            "U16" => frame.iter().flat_map(|&v| u16::try_from(v).unwrap().to_be_bytes()).collect(),
            "U32" => frame.iter().flat_map(|v| v.to_be_bytes()).collect(),
            _ => self.raw_payload(frame),
        }
    }

    fn raw_payload(&self, frame: &[u32]) -> Vec<u8> {
        let in_stored_order = self.in_stored_order(frame);
        match self.depth {
            1 => in_stored_order
                .chunks(64)
                .flat_map(|word| {
                    let bits = word.iter().enumerate().map(|(i, &v)| u64::from(v) << i);
                    bits.fold(0, |word, bit| word | bit).to_be_bytes()
                })
                .collect(),
            6 => in_stored_order
                .chunks(8)
                .flat_map(|word| word.iter().rev().map(|&v| u8::try_from(v).unwrap()))
                .collect(),
            12 => halves(&in_stored_order, |v| v),
            _ => {
                let mut stored = halves(&in_stored_order, |v| v >> 12);
                stored.extend(halves(&in_stored_order, |v| v & 0xFFF));
                stored
            }
        }
    }

    /// The pixels in the order of the stored rows: for four chips bottom right, bottom left
    /// (both upside down), top right, top left.
    fn in_stored_order(&self, frame: &[u32]) -> Vec<u32> {
        if self.chips == 1 {
            return frame.to_vec();
        }
        let [rows, columns] = self.shape;
        let (h, w) = (rows / 2, columns / 2);
        let at = |y: usize, x: usize| frame[y * columns + x];
        let mut stored = Vec::new();
        for r in 0..h {
            stored.extend((0..w).map(|c| at(rows - 1 - r, columns - 1 - c)));
            stored.extend((0..w).map(|c| at(rows - 1 - r, w - 1 - c)));
            stored.extend((0..w).map(|c| at(r, w + c)));
            stored.extend((0..w).map(|c| at(r, c)));
        }
        stored
    }

    /// A file with these frames, numbered from `first` on.
    pub fn file(&self, first: u64, frames: &[Vec<u32>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (sequence, frame) in (first..).zip(frames) {
            bytes.extend(self.header(sequence));
            bytes.extend(self.payload(frame));
        }
        bytes
    }

    /// Frames of noise, the same for the same seed.
    pub fn noise(&self, n_frames: usize, seed: u32) -> Vec<Vec<u32>> {
        let mut state = seed | 1;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 7) % self.limit()
        };
        let n_pixels = self.shape[0] * self.shape[1];
        (0..n_frames).map(|_| (0..n_pixels).map(|_| next()).collect()).collect()
    }
}

/// 16 bits of each pixel, four to a word, the first one last.
fn halves(pixels: &[u32], half: impl Fn(u32) -> u32) -> Vec<u8> {
    let to_bytes = |&v: &u32| u16::try_from(half(v)).unwrap().to_be_bytes();
    pixels.chunks(4).flat_map(|word| word.iter().rev().flat_map(to_bytes)).collect()
}
