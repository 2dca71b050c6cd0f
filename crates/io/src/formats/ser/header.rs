//! The headers of a file and of its elements.

use crate::access::Storage;
use crate::headers::calibration::Calibration;
use framefold_core::{ByteOrder, DType, Error, Result, StoredDType, checked_product};

/// Axes of a scan; TIA knows three.
const MAX_AXES: u64 = 16;
/// Bytes of a description or a unit.
const MAX_TEXT: u64 = 1 << 12;
/// Before the pixels of an image.
const IMAGE_HEADER: u64 = 50;
/// Before the values of a spectrum.
const SPECTRUM_HEADER: u64 = 26;

/// What the file says about itself.
#[derive(Debug)]
pub(super) struct Header {
    version: u16,
    is_image: bool,
    n_planned: u64,
    n_valid: u64,
    /// The offset of the array of offsets.
    array: u64,
    /// Slowest first.
    axes: Vec<Axis>,
}

#[derive(Debug)]
struct Axis {
    len: usize,
    /// Of the first position.
    start: f64,
    step: f64,
    description: String,
    unit: String,
}

/// What the first element says about itself.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub(super) stored: StoredDType,
    pub(super) sig_shape: Vec<usize>,
    /// Bytes before its values; the last of them are [`Element::identity`].
    pub(super) header_len: usize,
    /// The bytes that say what its values are.
    pub(super) identity: Vec<u8>,
    /// Start and step on its axes, slowest first.
    calibrations: Vec<[f64; 2]>,
    pub(super) data_len: usize,
}

/// The version, if these are the first bytes of a series.
pub(super) fn signature(bytes: &[u8]) -> Option<u16> {
    let version = match bytes.get(..6)? {
        [0x49, 0x49, 0x97, 0x01, version @ ..] => u16::from_le_bytes(*version.first_chunk()?),
        _ => return None,
    };
    matches!(version, 0x0210 | 0x0220).then_some(version)
}

/// Reads numbers one after the other.
struct Fields<'s> {
    storage: &'s Storage,
    at: u64,
}

impl Fields<'_> {
    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read(&mut bytes, what)?;
        Ok(bytes)
    }

    fn read(&mut self, out: &mut [u8], what: &str) -> Result<()> {
        let n = u64::try_from(out.len()).unwrap_or(u64::MAX);
        let end = self.at.checked_add(n).filter(|&end| end <= self.storage.len());
        let Some(end) = end else {
            return Err(Error::bad_file(format!(
                "the file of {} bytes ends within {what}",
                self.storage.len()
            ))
            .with_offset(self.at)
            .with_hint("the file is truncated or damaged; copy it again"));
        };
        self.storage.read_at(self.at, out)?;
        self.at = end;
        Ok(())
    }

    fn i32(&mut self, what: &str) -> Result<i32> {
        Ok(i32::from_le_bytes(self.array(what)?))
    }

    /// A number that cannot be negative, nor more than `most`.
    fn count(&mut self, what: &str, most: u64) -> Result<u64> {
        let at = self.at;
        let found = self.i32(what)?;
        u64::try_from(found).ok().filter(|&n| n <= most).ok_or_else(|| {
            Error::bad_file(format!("{what} is {found}, expected 0 to {most}")).with_offset(at)
        })
    }

    fn text(&mut self, what: &str) -> Result<String> {
        let len = self.count(what, MAX_TEXT)?;
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        self.read(&mut bytes, what)?;
        let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
        Ok(text.trim_matches(['\0', ' ']).to_owned())
    }
}

impl Header {
    /// # Errors
    /// `BadFile` if this is no series, has no element, or ends within its header.
    pub(super) fn read(storage: &Storage) -> Result<Self> {
        let mut fields = Fields { storage, at: 0 };
        let start: [u8; 6] = fields.array("the signature")?;
        let version = signature(&start).ok_or_else(|| {
            Error::bad_file(format!(
                "the file starts with {start:02x?}, expected 49 49 97 01 and the version 10 02 or \
                 20 02"
            ))
            .with_offset(0)
        })?;
        let kind = fields.i32("the type of elements")?;
        let is_image = match kind {
            0x4122 => true,
            0x4120 => false,
            _ => {
                return Err(Error::bad_file(format!(
                    "elements are of type 0x{kind:04x}, expected 0x4120 (spectra) or 0x4122 \
                     (images)"
                ))
                .with_offset(6));
            }
        };
        fields.i32("the type of tags")?;
        let n_planned = fields.count("the number of elements", u64::MAX)?;
        let n_valid = fields.count("the number of valid elements", u64::MAX)?;
        if n_valid == 0 {
            return Err(Error::bad_file(format!(
                "none of the {n_planned} elements of the series was recorded"
            ))
            .with_offset(18)
            .with_hint("record it again"));
        }
        let array = if version == 0x0210 {
            u64::from(u32::from_le_bytes(fields.array("the offset of the offsets")?))
        } else {
            u64::from_le_bytes(fields.array("the offset of the offsets")?)
        };
        let n_axes = fields.count("the number of axes", MAX_AXES)?;
        let mut axes = Vec::new();
        for _ in 0..n_axes {
            let what = "the length of an axis";
            let len = usize::try_from(fields.count(what, u64::MAX)?).unwrap_or(usize::MAX);
            let of_known = f64::from_le_bytes(fields.array("the start of an axis")?);
            let step = f64::from_le_bytes(fields.array("the step of an axis")?);
            let start = first_value(of_known, step, fields.i32("the reference of an axis")?);
            let description = fields.text("the description of an axis")?;
            let unit = fields.text("the unit of an axis")?;
            axes.push(Axis { len, start, step, description, unit });
        }
        axes.reverse();
        Ok(Header { version, is_image, n_planned, n_valid, array, axes })
    }

    /// The scan shape: that of the axes, if it has room for all elements.
    pub(super) fn nav_shape(&self) -> Vec<usize> {
        let shape: Vec<usize> = self.axes.iter().map(|axis| axis.len).collect();
        match checked_product(&shape) {
            // Each position takes a few bytes in the array of offsets, so that no more than
            // planned is believable.
            Some(n) if !shape.is_empty() && n >= self.n_valid && n <= self.n_planned => shape,
            _ => vec![usize::try_from(self.n_valid).unwrap_or(usize::MAX)],
        }
    }

    fn offset_size(&self) -> u64 {
        if self.version == 0x0210 { 4 } else { 8 }
    }

    /// The offset of the first element.
    ///
    /// # Errors
    /// `BadFile` if the array of offsets is not in the file.
    pub(super) fn first_offset(&self, storage: &Storage) -> Result<u64> {
        let first = self.read_offsets(storage, 1)?.first().copied();
        first.ok_or_else(|| Error::bug("no first offset"))
    }

    /// The offsets of the pixels' elements; those at the end that the file no longer holds are left
    /// out, with a warning.
    ///
    /// # Errors
    /// `BadFile` if the array of offsets is not in the file, an element before the last one that
    /// is there is not, or elements overlap.
    pub(super) fn offsets(
        &self,
        storage: &Storage,
        element: &Element,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<u64>> {
        let mut offsets = self.read_offsets(storage, self.n_valid)?;
        let len = u64::try_from(element.header_len + element.data_len).unwrap_or(u64::MAX);
        let there = |&offset: &u64| offset.checked_add(len).is_some_and(|end| end <= storage.len());
        let n_there = offsets.iter().take_while(|offset| there(offset)).count();
        if let Some(late) = offsets.iter().skip(n_there).position(there) {
            let missing = u64::try_from(n_there).unwrap_or(u64::MAX);
            let offset = offsets.get(n_there).copied().unwrap_or(0);
            return Err(Error::bad_file(format!(
                "element {missing} is to lie at byte {offset}, outside of the {} bytes of the \
                 file, but element {} is there",
                storage.len(),
                n_there + late
            ))
            .with_offset(self.array));
        }
        if n_there == 0 {
            return Err(Error::bad_file(format!(
                "not even the first element, {len} bytes from byte {} on, is in the {} bytes of \
                 the file",
                offsets.first().copied().unwrap_or(0),
                storage.len()
            ))
            .with_hint("the file is truncated; copy it again"));
        }
        if n_there < offsets.len() {
            warnings.push(format!(
                "the file is cut short: of {} elements, the first {n_there} are there",
                offsets.len()
            ));
        } else if self.n_valid < self.n_planned {
            warnings.push(format!(
                "the series was stopped: of {} elements that were planned, {} were recorded",
                self.n_planned, self.n_valid
            ));
        }
        offsets.truncate(n_there);
        let mut sorted = offsets.clone();
        sorted.sort_unstable();
        let next = sorted.iter().skip(1);
        match sorted.iter().zip(next).find(|(one, next)| *next - *one < len) {
            None => Ok(offsets),
            Some((one, next)) => Err(Error::bad_file(format!(
                "elements overlap: one is to lie at byte {one}, and one at byte {next}, expected at least \
                 {len} bytes from one to the next"
            ))
            .with_offset(self.array)
            .with_hint("the file is damaged; copy it again")),
        }
    }

    fn read_offsets(&self, storage: &Storage, n: u64) -> Result<Vec<u64>> {
        let size = self.offset_size();
        let len = n.checked_mul(size);
        let end = len.and_then(|len| self.array.checked_add(len));
        let Some(len) = len.filter(|_| end.is_some_and(|end| end <= storage.len())) else {
            return Err(Error::bad_file(format!(
                "the offsets of {n} elements are to begin at byte {}, but the file has {} bytes",
                self.array,
                storage.len()
            ))
            .with_offset(22)
            .with_hint("the file is truncated or damaged; copy it again"));
        };
        // No longer than the file.
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        storage.read_at(self.array, &mut bytes)?;
        Ok(if size == 4 {
            let (offsets, _) = bytes.as_chunks();
            offsets.iter().map(|offset| u32::from_le_bytes(*offset).into()).collect()
        } else {
            let (offsets, _) = bytes.as_chunks();
            offsets.iter().map(|offset| u64::from_le_bytes(*offset)).collect()
        })
    }

    /// The steps on the axes of the scan, slowest first, if its shape is that of the axes.
    pub(super) fn steps(&self) -> Vec<Option<Calibration>> {
        let own = self.nav_shape().into_iter().eq(self.axes.iter().map(|axis| axis.len));
        let axes = self.axes.iter().filter(|_| own);
        axes.map(|axis| Some(calibration(axis.start, axis.step, &axis.unit))).collect()
    }

    /// Meta data for people to read.
    pub(super) fn details(&self) -> Vec<(String, String)> {
        let kind = if self.is_image { "images" } else { "spectra" };
        let mut details = vec![
            ("SER version".to_owned(), format!("0x{:04x}", self.version)),
            ("elements".to_owned(), format!("{} {kind}", self.n_valid)),
        ];
        for (index, axis) in self.axes.iter().enumerate() {
            let text = format!("{} {} {}", axis.description, axis.step, axis.unit);
            details.push((format!("scan axis {index}"), text.trim().to_owned()));
        }
        details
    }
}

impl Element {
    /// Reads the header of the element at `offset`.
    ///
    /// # Errors
    /// `BadFile` if it is not within the file, its size is none, or its type is not known.
    pub(super) fn read(storage: &Storage, header: &Header, offset: u64) -> Result<Self> {
        let header_len = if header.is_image { IMAGE_HEADER } else { SPECTRUM_HEADER };
        let identity_len = if header.is_image { 10 } else { 6 };
        let mut identity = vec![0; identity_len];
        let mut fields = Fields { storage, at: offset };
        let mut calibrations = Vec::new();
        for _ in 0..if header.is_image { 2 } else { 1 } {
            let mut number = || Ok(f64::from_le_bytes(fields.array("a calibration")?));
            let [of_known, step] = [number()?, number()?];
            let known = fields.i32("the reference of a calibration")?;
            calibrations.push([first_value(of_known, step, known), step]);
        }
        calibrations.reverse();
        let at = offset.saturating_add(header_len - identity_len as u64);
        let mut fields = Fields { storage, at };
        fields.read(&mut identity, "the header of the first element")?;
        let located = |error: Error| error.with_offset(at);
        let (code, lengths) = identity.split_first_chunk().unwrap_or((&[0; 2], &[]));
        let code = i16::from_le_bytes(*code);
        let dtype = dtype(code).ok_or_else(|| {
            located(Error::bad_file(format!("elements are of type {code}, expected 1 to 10")))
        })?;
        let (lengths, _) = lengths.as_chunks();
        let mut sig_shape = Vec::new();
        for length in lengths.iter().map(|length| i32::from_le_bytes(*length)).rev() {
            let length = usize::try_from(length).ok().filter(|&length| length > 0);
            sig_shape.push(
                length.ok_or_else(|| {
                    located(Error::bad_file("an element has a length of 0 or less"))
                })?,
            );
        }
        let stored = StoredDType { dtype, order: ByteOrder::Little };
        let data_len = crate::readers::linear::frame_bytes(&sig_shape, stored)
            .map_err(|error| located(Error::bad_file(error.message().to_owned())))?;
        Ok(Element {
            stored,
            sig_shape,
            header_len: usize::try_from(header_len).unwrap_or(usize::MAX),
            identity,
            calibrations,
            // Proved to fit in memory.
            data_len: usize::try_from(data_len).unwrap_or(usize::MAX),
        })
    }

    /// The steps on its axes. No unit is written: spectra are of energies, in eV, and images are in
    /// metres, or in their inverse where they are diffraction patterns, which the numbers tell.
    pub(super) fn steps(&self) -> Vec<Option<Calibration>> {
        let is_image = self.calibrations.len() == 2;
        let steps = self.calibrations.iter();
        steps
            .map(|&[start, step]| {
                let unit = match is_image {
                    false => "eV",
                    true if step.abs() < 1.0 => "m",
                    true => "1/m",
                };
                Some(calibration(start, step, unit))
            })
            .collect()
    }
}

/// The value of the first position, of which the file tells that of another one.
fn first_value(of_known: f64, step: f64, known: i32) -> f64 {
    if known == 0 { of_known } else { of_known - f64::from(known) * step }
}

/// An axis, which may count down.
fn calibration(start: f64, step: f64, unit: &str) -> Calibration {
    Calibration { step, offset: Some(start), unit: unit.to_owned() }
}

fn dtype(code: i16) -> Option<DType> {
    Some(match code {
        1 => DType::U8,
        2 => DType::U16,
        3 => DType::U32,
        4 => DType::I8,
        5 => DType::I16,
        6 => DType::I32,
        7 => DType::F32,
        8 => DType::F64,
        9 => DType::C64,
        10 => DType::C128,
        _ => return None,
    })
}
