//! Writes DM files, from the description of the format alone.

use framefold_core::{ByteOrder, DType, StoredDType};

/// One image, as it is to lie in the file.
#[derive(Clone, Debug)]
pub struct Image {
    pub stored: StoredDType,
    /// Lengths of the axes, fastest first.
    pub lengths: Vec<usize>,
    pub bytes: Vec<u8>,
    pub format: Option<&'static str>,
    pub swapped: Option<bool>,
    /// The code of the type of pixels, if it is not that of the dtype.
    pub code: Option<u32>,
    /// The unit of the steps on all axes.
    pub unit: &'static str,
    /// Imaging mode, operation mode and indicated magnification of the microscope.
    pub microscope: Option<(&'static str, &'static str, f32)>,
}

impl Image {
    pub fn new(stored: StoredDType, lengths: &[usize], bytes: &[u8]) -> Self {
        Image {
            stored,
            lengths: lengths.to_vec(),
            bytes: bytes.to_vec(),
            format: None,
            swapped: None,
            code: None,
            unit: "µm",
            microscope: None,
        }
    }
}

/// A file in the making.
pub struct Writer {
    version: u32,
    order: ByteOrder,
    out: Vec<u8>,
}

/// A file with these images, the first `n_thumbnails` of which are thumbnails.
pub fn file(version: u32, order: ByteOrder, images: &[Image], n_thumbnails: usize) -> Vec<u8> {
    let mut writer = Writer::new(version, order);
    writer.group_start(2 + u64::from(n_thumbnails > 0));
    writer.entry(21, "Before", |w| w.number(5, &7u32.to_le_bytes(), &7u32.to_be_bytes()));
    writer.entry(20, "ImageList", |w| {
        w.group_start(images.len() as u64);
        for image in images {
            w.entry(20, "", |w| w.image(image));
        }
    });
    if n_thumbnails > 0 {
        writer.entry(20, "Thumbnails", |w| {
            w.group_start(n_thumbnails as u64);
            for index in 0..n_thumbnails as u32 {
                w.entry(20, "", |w| {
                    w.group_start(1);
                    w.entry(21, "ImageIndex", |w| w.u32_value(index));
                });
            }
        });
    }
    writer.finish()
}

/// The code of a dtype as the type of an image's pixels, and as the type of a tag's elements.
fn codes(dtype: DType) -> Option<(u32, u64)> {
    Some(match dtype {
        DType::I16 => (1, 2),
        DType::F32 => (2, 6),
        DType::C64 => (3, 6),
        DType::U8 => (6, 10),
        DType::I32 => (7, 3),
        DType::I8 => (9, 9),
        DType::U16 => (10, 4),
        DType::U32 => (11, 5),
        DType::F64 => (12, 7),
        DType::C128 => (13, 7),
        DType::Bool => (14, 8),
        DType::U64 | DType::I64 | DType::F16 => return None,
    })
}

/// Whether the format knows pixels of this dtype.
pub fn knows(dtype: DType) -> bool {
    codes(dtype).is_some()
}

impl Writer {
    pub fn new(version: u32, order: ByteOrder) -> Self {
        let mut writer = Writer { version, order, out: Vec::new() };
        writer.out.extend(version.to_be_bytes());
        writer.word(0);
        writer.out.extend(u32::from(order == ByteOrder::Little).to_be_bytes());
        writer
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.out.extend([0; 8]);
        self.out
    }

    pub fn word(&mut self, word: u64) {
        if self.version == 4 {
            self.out.extend(word.to_be_bytes());
        } else {
            self.out.extend((word as u32).to_be_bytes());
        }
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend(bytes);
    }

    pub fn group_start(&mut self, n_entries: u64) {
        self.out.extend([1, 0]);
        self.word(n_entries);
    }

    pub fn entry(&mut self, kind: u8, name: &str, content: impl FnOnce(&mut Self)) {
        self.out.push(kind);
        self.out.extend((name.len() as u16).to_be_bytes());
        self.out.extend(name.as_bytes());
        if self.version == 4 {
            self.out.extend([0; 8]);
        }
        let start = self.out.len();
        content(self);
        if self.version == 4 {
            let len = (self.out.len() - start) as u64;
            self.out[start - 8..start].copy_from_slice(&len.to_be_bytes());
        }
    }

    pub fn described(&mut self, words: &[u64]) {
        self.out.extend(b"%%%%");
        self.word(words.len() as u64);
        words.iter().for_each(|&word| self.word(word));
    }

    fn number(&mut self, kind: u64, little: &[u8], big: &[u8]) {
        self.described(&[kind]);
        let bytes = if self.order == ByteOrder::Little { little } else { big };
        self.out.extend(bytes);
    }

    pub fn u32_value(&mut self, value: u32) {
        self.number(5, &value.to_le_bytes(), &value.to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        let units: Vec<u16> = text.encode_utf16().collect();
        self.described(&[20, 4, units.len() as u64]);
        let little = self.order == ByteOrder::Little;
        for unit in units {
            self.out.extend(if little { unit.to_le_bytes() } else { unit.to_be_bytes() });
        }
    }

    fn image(&mut self, image: &Image) {
        let (code, element) = codes(image.stored.dtype).unwrap();
        let parts = if image.stored.dtype.is_complex() { 2 } else { 1 };
        let count = (image.bytes.len() / image.stored.dtype.size()) as u64;
        self.group_start(2);
        self.entry(20, "ImageData", |w| {
            w.group_start(4);
            w.entry(21, "Data", |w| {
                if parts == 2 {
                    w.described(&[20, 15, 0, 2, 0, element, 0, element, count]);
                } else {
                    w.described(&[20, element, count]);
                }
                w.out.extend(&image.bytes);
            });
            w.entry(21, "DataType", |w| w.u32_value(image.code.unwrap_or(code)));
            w.entry(20, "Dimensions", |w| {
                w.group_start(image.lengths.len() as u64);
                for &length in &image.lengths {
                    w.entry(21, "", |w| w.u32_value(length as u32));
                }
            });
            w.entry(20, "Calibrations", |w| {
                w.group_start(1);
                w.entry(20, "Dimension", |w| {
                    w.group_start(image.lengths.len() as u64);
                    for _ in &image.lengths {
                        w.entry(20, "", |w| {
                            w.group_start(2);
                            w.entry(21, "Scale", |w| {
                                w.number(6, &0.5f32.to_le_bytes(), &0.5f32.to_be_bytes());
                            });
                            w.entry(21, "Units", |w| w.text(image.unit));
                        });
                    }
                });
            });
        });
        self.entry(20, "ImageTags", |w| {
            w.group_start(1 + u64::from(image.microscope.is_some()));
            if let Some((imaging, operation, magnification)) = image.microscope {
                w.entry(20, "Microscope Info", |w| {
                    w.group_start(3);
                    w.entry(21, "Imaging Mode", |w| w.text(imaging));
                    w.entry(21, "Operation Mode", |w| w.text(operation));
                    w.entry(21, "Indicated Magnification", |w| {
                        w.number(6, &magnification.to_le_bytes(), &magnification.to_be_bytes());
                    });
                });
            }
            w.entry(20, "Meta Data", |w| {
                let n = usize::from(image.format.is_some()) + usize::from(image.swapped.is_some());
                w.group_start(n as u64 + 1);
                // A record, which is passed over.
                w.entry(21, "Size", |w| {
                    w.described(&[15, 0, 2, 0, 3, 0, 6]);
                    w.out.extend([1; 8]);
                });
                if let Some(format) = image.format {
                    w.entry(21, "Format", |w| w.text(format));
                }
                if let Some(swapped) = image.swapped {
                    w.entry(21, "Data Order Swapped", |w| {
                        w.described(&[8]);
                        w.out.push(u8::from(swapped));
                    });
                }
            });
        });
    }
}
