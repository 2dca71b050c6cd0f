//! HDF5 data types that are pixels.

use framefold_core::{ByteOrder, DType, Error, Result, StoredDType};
use hdf5_reader::{ByteOrder as LibraryOrder, Dataset, Datatype};

/// The dtype of a data set's elements.
///
/// # Errors
/// `Unsupported` for whatever is no number.
pub(super) fn stored_dtype(dataset: &Dataset) -> Result<StoredDType> {
    let raw = dataset.raw_datatype().map_err(|error| super::failures::translate(&error))?;
    of_type(dataset.dtype(), Some(&raw)).ok_or_else(|| {
        Error::unsupported(format!(
            "the elements of '{}' are {}, not numbers of a known kind",
            dataset.name(),
            describe(dataset.dtype())
        ))
        .with_hint("name another data set by ds_path")
    })
}

/// Whether the elements may be pixels, of a known kind or not; cheaper than [`stored_dtype`].
pub(super) fn is_numeric(dataset: &Dataset) -> bool {
    let number = matches!(
        dataset.dtype(),
        Datatype::FixedPoint { .. } | Datatype::FloatingPoint { .. } | Datatype::Bitfield { .. }
    );
    number || of_type(dataset.dtype(), None).is_some()
}

fn of_type(datatype: &Datatype, raw: Option<&[u8]>) -> Option<StoredDType> {
    let plain = |dtype, order: &LibraryOrder| StoredDType {
        dtype,
        order: match order {
            LibraryOrder::LittleEndian => ByteOrder::Little,
            LibraryOrder::BigEndian => ByteOrder::Big,
        },
    };
    match datatype {
        Datatype::FixedPoint { size, signed, byte_order } => {
            let dtype = integer(*size, *signed)?;
            (raw.is_none_or(|raw| fills_its_bytes(raw, *size))).then(|| plain(dtype, byte_order))
        }
        Datatype::FloatingPoint { size, byte_order } => {
            let dtype = float(*size)?;
            raw.is_none_or(|raw| is_ieee(raw, *size)).then(|| plain(dtype, byte_order))
        }
        Datatype::Bitfield { size, byte_order } => {
            let dtype = integer(*size, false)?;
            (raw.is_none_or(|raw| fills_its_bytes(raw, *size))).then(|| plain(dtype, byte_order))
        }
        Datatype::Enum { base, members } => {
            let stored = of_type(base, None).filter(|stored| stored.dtype.is_integer())?;
            // As h5py writes NumPy's bool.
            let is = |name: &str, value: u8| {
                members.iter().any(|member| member.name == name && member.value == [value])
            };
            let boolean = members.len() == 2 && is("FALSE", 0) && is("TRUE", 1);
            Some(if boolean { StoredDType { dtype: DType::Bool, ..stored } } else { stored })
        }
        Datatype::Compound { size, fields } => {
            let [real, imaginary] = fields.as_slice() else { return None };
            let part = of_type(&real.datatype, None)?;
            let dtype = match (part.dtype, size) {
                (DType::F32, 8) => DType::C64,
                (DType::F64, 16) => DType::C128,
                _ => return None,
            };
            let is_complex = is_part(&real.name, "re") && is_part(&imaginary.name, "im");
            let half = u32::try_from(part.dtype.size()).ok()?;
            let fits = of_type(&imaginary.datatype, None) == Some(part)
                && (real.byte_offset, imaginary.byte_offset) == (0, half);
            (is_complex && fits).then_some(StoredDType { dtype, ..part })
        }
        _ => None,
    }
}

/// Whether a field of a record is named as that part of a complex number: by the first letter, as
/// h5py does, or by a word, as in `imag` or Velox' `realFloat`. All other pairs are just pairs.
fn is_part(name: &str, beginning: &str) -> bool {
    let starts = |with: &str| name.get(..with.len()).is_some_and(|n| n.eq_ignore_ascii_case(with));
    starts(beginning) || (name.len() == 1 && beginning.starts_with(&name.to_ascii_lowercase()))
}

fn integer(size: u8, signed: bool) -> Option<DType> {
    Some(match (size, signed) {
        (1, false) => DType::U8,
        (2, false) => DType::U16,
        (4, false) => DType::U32,
        (8, false) => DType::U64,
        (1, true) => DType::I8,
        (2, true) => DType::I16,
        (4, true) => DType::I32,
        (8, true) => DType::I64,
        _ => return None,
    })
}

fn float(size: u8) -> Option<DType> {
    Some(match size {
        2 => DType::F16,
        4 => DType::F32,
        8 => DType::F64,
        _ => return None,
    })
}

/// Whether all bits of an integer count; others would need to be taken out of their bytes.
fn fills_its_bytes(raw: &[u8], size: u8) -> bool {
    let bits = u16::from(size) * 8;
    raw.get(8..12) == Some(&[[0, 0], bits.to_le_bytes()].concat()[..])
}

/// Whether a float is one of IEEE 754, in an order of bytes that has a name.
fn is_ieee(raw: &[u8], size: u8) -> bool {
    let (exponent_at, exponent_bits, bias) = match size {
        2 => (10, 5, 15u32),
        4 => (23, 8, 127),
        _ => (52, 11, 1023),
    };
    let layout = [exponent_at, exponent_bits, 0, exponent_at];
    let vax_order = raw.get(1).is_none_or(|flags| flags & 0x40 != 0);
    // That the highest bit of the mantissa is 1 and not stored.
    let is_implied = raw.get(1).is_some_and(|flags| (flags >> 4) & 3 == 2);
    let sign_at = raw.get(2).map(|at| u16::from(*at) + 1);
    !vax_order
        && is_implied
        && sign_at == Some(u16::from(size) * 8)
        && fills_its_bytes(raw, size)
        && raw.get(12..16) == Some(&layout[..])
        && raw.get(16..20) == Some(&bias.to_le_bytes()[..])
}

fn describe(datatype: &Datatype) -> String {
    match datatype {
        Datatype::FixedPoint { size, .. } => format!("integers in part of {size} bytes"),
        Datatype::FloatingPoint { size, .. } => {
            format!("floats of {size} bytes not as in IEEE 754")
        }
        Datatype::String { .. } => "strings".into(),
        Datatype::Compound { fields, .. } => {
            let names: Vec<_> = fields.iter().take(4).map(|field| field.name.as_str()).collect();
            format!("records with fields '{}'", names.join("', '"))
        }
        Datatype::VarLen { .. } => "of variable length".into(),
        Datatype::Reference { .. } => "references".into(),
        Datatype::Array { .. } => "arrays".into(),
        Datatype::Enum { .. } => "names for numbers".into(),
        Datatype::Opaque { .. } => "opaque".into(),
        Datatype::Bitfield { .. } => "fields of bits".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_complex_numbers_are_known_by_their_names() {
        for (real, imaginary) in
            [("r", "i"), ("re", "im"), ("Real", "Imag"), ("realFloatHalfOdd", "imagFloatHalfOdd")]
        {
            assert!(is_part(real, "re") && is_part(imaginary, "im"), "{real}, {imaginary}");
            assert!(!is_part(real, "im") && !is_part(imaginary, "re"), "{real}, {imaginary}");
        }
        for name in ["", "x", "row", "id", "index", "\u{e9}"] {
            assert!(!is_part(name, "re") && !is_part(name, "im"), "{name}");
        }
    }
}
