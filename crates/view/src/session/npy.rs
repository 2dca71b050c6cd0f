//! Masks in files of NumPy (NEP 1): a header in Python's notation, then one array.

use framefold::core::{ByteOrder, DType, F16, StoredDType, widen_f16};
use framefold::{Error, Result};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Shape and weights of the array in `bytes`.
pub(super) fn weights(bytes: &[u8]) -> Result<(Vec<usize>, Vec<f32>)> {
    let no = |what: &str| Error::invalid(format!("the mask is no file of NumPy: {what}"));
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| no("it begins with something else"))?;
    let cut = || no("it ends within its header");
    let ([major, _], rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
    let (len, rest) = match major {
        1 => {
            let (len, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
            (usize::from(u16::from_le_bytes(*len)), rest)
        }
        2 | 3 => {
            let (len, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
            (usize::try_from(u32::from_le_bytes(*len)).map_err(|_| cut())?, rest)
        }
        _ => return Err(no("its version is not known")),
    };
    let (header, data) = rest.split_at_checked(len).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| no("its header is no text"))?;
    let text = |key: &str| value(header, key).ok_or_else(|| no(&format!("it has no '{key}'")));
    let dtype = text("descr")?.trim_matches(['\'', '"']);
    let dtype = StoredDType::parse(dtype)
        .map_err(|_| no(&format!("its dtype is '{dtype}', and numbers are expected")))?;
    let shape = shape(text("shape")?).ok_or_else(|| no("its shape is no list of lengths"))?;
    let n = shape.iter().try_fold(1_usize, |n, len| n.checked_mul(*len));
    let expected = n.and_then(|n| n.checked_mul(dtype.dtype.size()));
    if expected != Some(data.len()) {
        return Err(no(&format!(
            "{} bytes follow, which is not an array of {shape:?}",
            data.len()
        )));
    }
    let values = values(data, dtype).ok_or_else(|| {
        no(&format!("its dtype is '{}', and real numbers are expected", dtype.dtype))
    })?;
    match text("fortran_order")? {
        "False" => Ok((shape, values)),
        "True" => Ok((shape.clone(), c_order(&shape, &values))),
        _ => Err(no("'fortran_order' is neither True nor False")),
    }
}

/// What stands behind a key of a dictionary as `numpy.save` writes it: `{'descr': '<f4', 'shape': (3, 4), }`.
fn value<'h>(header: &'h str, key: &str) -> Option<&'h str> {
    let rest = header.split_once(&format!("'{key}':"))?.1.trim_start();
    let end = match rest.starts_with('(') {
        true => rest.find(')')? + 1,
        false => rest.find([',', '}'])?,
    };
    rest.get(..end).map(str::trim)
}

fn shape(text: &str) -> Option<Vec<usize>> {
    let inner = text.strip_prefix('(')?.strip_suffix(')')?;
    let parts = inner.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.parse().ok()).collect()
}

fn values(data: &[u8], dtype: StoredDType) -> Option<Vec<f32>> {
    let little = dtype.order == ByteOrder::Little;
    macro_rules! read {
        ($type:ty) => {
            read!($type, |value| value as f32)
        };
        ($type:ty, |$value:ident| $weight:expr) => {{
            let chunks = data.as_chunks::<{ size_of::<$type>() }>().0.iter();
            let value = |chunk: &[u8; size_of::<$type>()]| match little {
                true => <$type>::from_le_bytes(*chunk),
                false => <$type>::from_be_bytes(*chunk),
            };
            let weight = |$value: $type| $weight;
            Some(chunks.map(|chunk| weight(value(chunk))).collect())
        }};
    }
    match dtype.dtype {
        DType::Bool => Some(data.iter().map(|byte| f32::from(u8::from(*byte != 0))).collect()),
        DType::U8 => read!(u8),
        DType::I8 => read!(i8),
        DType::U16 => read!(u16),
        DType::I16 => read!(i16),
        DType::U32 => read!(u32),
        DType::I32 => read!(i32),
        DType::U64 => read!(u64),
        DType::I64 => read!(i64),
        DType::F16 => read!(u16, |bits| widen_f16(F16::from_bits(bits))),
        DType::F32 => read!(f32),
        DType::F64 => read!(f64),
        _ => None,
    }
}

/// Values whose first axis is the fastest, with the last one as the fastest.
fn c_order(shape: &[usize], values: &[f32]) -> Vec<f32> {
    let mut ordered = Vec::with_capacity(values.len());
    let mut index = vec![0_usize; shape.len()];
    for _ in 0..values.len() {
        let place = index.iter().zip(shape).rev().fold(0, |place, (i, len)| place * len + i);
        ordered.extend(values.get(place));
        for (i, len) in index.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < *len {
                break;
            }
            *i = 0;
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn npy(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes()].concat();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    #[test]
    fn arrays_of_all_kinds() {
        let header = |descr: &str, order: &str| {
            format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': (2, 3), }}   \n")
        };
        let expected = (vec![2, 3], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let f64s: Vec<u8> = (0..6).flat_map(|i| f64::from(i).to_le_bytes()).collect();
        assert_eq!(weights(&npy(&header("<f8", "False"), &f64s)).unwrap(), expected);
        let i16s: Vec<u8> = (0..6_i16).flat_map(i16::to_be_bytes).collect();
        assert_eq!(weights(&npy(&header(">i2", "False"), &i16s)).unwrap(), expected);
        assert_eq!(weights(&npy(&header("|u1", "True"), &[0, 3, 1, 4, 2, 5])).unwrap(), expected);
        let f16s = [0x0000_u16, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500];
        for (descr, bytes) in
            [("<f2", f16s.map(u16::to_le_bytes)), (">f2", f16s.map(u16::to_be_bytes))]
        {
            assert_eq!(weights(&npy(&header(descr, "False"), &bytes.concat())).unwrap(), expected);
        }
        let bools = weights(&npy(&header("|b1", "False"), &[0, 1, 1, 0, 0, 2])).unwrap();
        assert_eq!(bools.1, [0.0, 1.0, 1.0, 0.0, 0.0, 1.0]);
        let line = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n";
        assert_eq!(weights(&npy(line, &1.5_f32.to_le_bytes())).unwrap(), (vec![1], vec![1.5]));
    }

    #[test]
    fn what_is_no_array_is_refused() {
        let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n";
        let whole = npy(good, &[0; 8]);
        assert!(weights(&whole).is_ok());
        for len in 0..whole.len() {
            assert!(weights(&whole[..len]).is_err(), "{len}");
        }
        for header in [
            "{'descr': '|O', 'fortran_order': False, 'shape': (1, 2), }",
            "{'descr': '<c16', 'fortran_order': False, 'shape': (1, 2), }",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1, 2), }",
            "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1, 2), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 2), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }",
            "{'descr': '<f4', 'shape': (1, 2), }",
            "{}",
            "",
        ] {
            let error = weights(&npy(header, &[0; 8])).unwrap_err();
            assert!(error.to_string().contains("no file of NumPy"), "{header}: {error}");
        }
    }
}
