//! Attributes and small data sets, whatever their dtype.

use super::spelling;
use crate::headers::packed::Packed;
use framefold_core::DType;
use hdf5_reader::group::Group;
use hdf5_reader::{Attribute, Dataset, Datatype, StringSize, VarLenKind};

/// What describes an axis or an experiment is no longer than this.
const MOST_VALUES: u64 = 1 << 16;

pub(super) fn attribute_number(group: &Group, name: &str) -> Option<f64> {
    group.attribute(name).ok()?.read_as_f64().ok()
}

pub(super) fn attribute_text(group: &Group, name: &str) -> Option<String> {
    said(&group.attribute(name).ok()?)
}

/// A text of an attribute. What is not UTF-8 is Latin-1, as older programs wrote it.
fn said(attribute: &Attribute) -> Option<String> {
    let latin_1 = |bytes: &[u8]| bytes.iter().copied().map(char::from).collect();
    attribute.read_string().ok().or_else(|| bytes(attribute).map(latin_1))
}

/// A name, spelt as those of links are.
pub(super) fn name(attribute: &Attribute) -> Option<String> {
    attribute.read_string().ok().or_else(|| {
        let mut bytes = bytes(attribute)?.to_vec();
        spelling::in_ascii(&mut bytes);
        String::from_utf8(bytes).ok()
    })
}

/// The bytes of a single text.
fn bytes(attribute: &Attribute) -> Option<&[u8]> {
    match &attribute.datatype {
        // Of a text of any length, the library has the bytes here, too.
        Datatype::String { size: StringSize::Fixed(_), .. }
        | Datatype::VarLen { kind: VarLenKind::String, .. } => {
            Some(attribute.raw_data.split(|&byte| byte == 0).next()?.trim_ascii_end())
        }
        _ => None,
    }
}

/// The text of a data set within a group.
pub(super) fn text(group: &Group, name: &str) -> Option<String> {
    group.dataset(name).ok()?.read_string().ok()
}

/// The single number of a data set within a group.
pub(super) fn number(group: &Group, name: &str) -> Option<f64> {
    match numbers(&group.dataset(name).ok()?)?.as_slice() {
        &[number] => Some(number),
        _ => None,
    }
}

/// The unit that a data set says it has.
pub(super) fn unit(dataset: &Dataset) -> Option<String> {
    said(&dataset.attribute("units").ok()?)
}

/// What a data set says that its numbers stand for.
pub(super) fn packed(dataset: &Dataset) -> Packed {
    Packed::of(|name| dataset.attribute(name).ok()?.read_as_f64().ok())
}

/// All numbers of a data set that holds but a few.
pub(super) fn numbers(dataset: &Dataset) -> Option<Vec<f64>> {
    if dataset.num_elements().ok()? > MOST_VALUES {
        return None;
    }
    let dtype = super::dtype::stored_dtype(dataset).ok()?.dtype;
    let bytes = dataset.read_native_bytes().ok()?;
    macro_rules! all {
        ($type:ty) => {
            bytes.as_chunks().0.iter().map(|bytes| <$type>::from_ne_bytes(*bytes) as f64).collect()
        };
    }
    Some(match dtype {
        DType::U8 => all!(u8),
        DType::I8 => all!(i8),
        DType::U16 => all!(u16),
        DType::I16 => all!(i16),
        DType::U32 => all!(u32),
        DType::I32 => all!(i32),
        DType::U64 => all!(u64),
        DType::I64 => all!(i64),
        DType::F32 => all!(f32),
        DType::F64 => all!(f64),
        _ => return None,
    })
}
