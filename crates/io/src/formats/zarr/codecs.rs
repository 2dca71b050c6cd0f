//! Codecs of Zarr and of numcodecs, by their names, as what undoes them.

use crate::codec::{Delta, Filter, Inner, Lzma, Recast};
use framefold_core::{ByteOrder, DType, Error, Result, StoredDType};
use serde_json::Value;

/// What a codec does that makes elements of elements.
pub(super) enum OfElements {
    /// Nothing that would have to be undone: digits were lost before.
    Nothing,
    Filter(Filter, StoredDType),
}

impl OfElements {
    /// The filter, if one is needed; `elements` are those after it.
    pub(super) fn step(self, elements: &mut StoredDType) -> Option<Filter> {
        match self {
            OfElements::Nothing => None,
            OfElements::Filter(filter, after) => {
                *elements = after;
                Some(filter)
            }
        }
    }
}

/// How arrays of version 3 become bytes: the dtype of elements in a chunk, the axes in the order in
/// which they vary there, and the filters.
///
/// # Errors
/// `Unsupported` that names a codec; `BadFile`.
pub(super) fn chain(
    codecs: &[Value],
    dtype: DType,
    n_axes: usize,
) -> Result<(StoredDType, Vec<usize>, Vec<Filter>)> {
    let name = |codec: &Value| name(codec).unwrap_or_default().to_owned();
    let Some(bytes) = codecs.iter().position(|codec| name(codec) == "bytes") else {
        return Err(match codecs.iter().map(name).find(|name| name == "sharding_indexed") {
            Some(name) => unknown("place of the codec", &name),
            None => Error::bad_file("no codec turns the array into bytes"),
        });
    };
    let (of_elements, of_bytes) = codecs.split_at(bytes);
    let endian = of_bytes.first().and_then(|codec| codec["configuration"].get("endian"));
    let big = endian.is_some_and(|endian| endian == "big");
    let order = if big { ByteOrder::Big } else { ByteOrder::Little };
    let stored = StoredDType { dtype, order };
    let mut elements = stored;
    let mut axes: Vec<usize> = (0..n_axes).collect();
    let mut filters = vec![];
    for codec in of_elements {
        let (name, options) = (name(codec), &codec["configuration"]);
        if name == "transpose" && filters.is_empty() {
            axes = transposed(&axes, &options["order"])?;
            continue;
        }
        match self::of_elements(&name, options, StoredDType { order, ..elements })? {
            Some(found) => filters.extend(found.step(&mut elements)),
            None => return Err(unknown("codec", &name)),
        }
    }
    for codec in of_bytes.iter().skip(1) {
        let (name, options) = (name(codec), &codec["configuration"]);
        filters.push(self::of_bytes(&name, options, elements.dtype.size(), dtype.size())?);
    }
    Ok((stored, axes, filters))
}

/// The name of a codec, a dtype and all else that may have a configuration: without one, it may be by
/// itself.
pub(super) fn name(of: &Value) -> Option<&str> {
    of.as_str().or_else(|| of["name"].as_str())
}

/// Axes in another order.
fn transposed(axes: &[usize], order: &Value) -> Result<Vec<usize>> {
    match order.as_str() {
        Some("C") => return Ok(axes.to_vec()),
        Some("F") => return Ok(axes.iter().rev().copied().collect()),
        _ => {}
    }
    let places = order.as_array().into_iter().flatten();
    let places: Option<Vec<usize>> =
        places.map(|place| place.as_u64().and_then(|place| usize::try_from(place).ok())).collect();
    let places = places.unwrap_or_default();
    let mut sorted = places.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..axes.len()) {
        return Err(Error::bad_file(format!(
            "the order {order} of the codec 'transpose' is none of {} axes",
            axes.len()
        )));
    }
    Ok(places.iter().filter_map(|&place| axes.get(place).copied()).collect())
}

/// The codec of that name, if it makes elements of elements.
///
/// # Errors
/// `Unsupported` for dtypes that it is not read with.
pub(super) fn of_elements(
    name: &str,
    options: &Value,
    elements: StoredDType,
) -> Result<Option<OfElements>> {
    let name = name.strip_prefix("numcodecs.").unwrap_or(name);
    let dtype = |key: &str, default: StoredDType| match options[key].as_str() {
        None => Some(default),
        Some(text) => StoredDType::parse(text).ok(),
    };
    let same = |a: StoredDType, b: StoredDType| {
        a.dtype == b.dtype && (a.order == b.order || a.dtype.size() == 1)
    };
    let refused = || {
        let text = format!("the codec {name:?} with the options {options} for {elements}");
        Error::unsupported(format!("{text} is not known to framefold"))
            .with_hint("rewrite the array without filters")
    };
    match name {
        "delta" => {
            let before = dtype("dtype", elements).ok_or_else(refused)?;
            let after = dtype("astype", before).ok_or_else(refused)?;
            // Where the whole array has an order of bytes, differences are stored in it.
            let delta = Delta::new(elements, after).filter(|_| same(before, elements));
            Ok(Some(OfElements::Filter(Filter::Delta(delta.ok_or_else(refused)?), after)))
        }
        "quantize" | "bitround" | "fixedscaleoffset" => {
            let before = dtype("dtype", elements).ok_or_else(refused)?;
            let after = dtype("astype", before).ok_or_else(refused)?;
            let scale = match name {
                "fixedscaleoffset" => {
                    let number = |key: &str| options[key].as_f64();
                    Some(number("scale").zip(number("offset")).ok_or_else(refused)?)
                }
                _ => None,
            };
            if !same(before, elements) {
                return Err(refused());
            }
            if scale.is_none() && same(after, elements) {
                return Ok(Some(OfElements::Nothing));
            }
            let recast = Recast::new(elements, after, scale).ok_or_else(refused)?;
            Ok(Some(OfElements::Filter(Filter::Recast(recast), after)))
        }
        "astype" => {
            let before = dtype("decode_dtype", elements).ok_or_else(refused)?;
            let after = dtype("encode_dtype", elements).ok_or_else(refused)?;
            let recast = Recast::new(elements, after, None).filter(|_| same(before, elements));
            Ok(Some(OfElements::Filter(Filter::Recast(recast.ok_or_else(refused)?), after)))
        }
        "packbits" if elements.dtype == DType::Bool => {
            Ok(Some(OfElements::Filter(Filter::Bits, StoredDType::native(DType::U8))))
        }
        "packbits" => Err(refused()),
        _ => Ok(None),
    }
}

/// The filter that a codec of that name is, which makes bytes of bytes: of elements of `size` bytes, and
/// of `shuffled` bytes where `shuffle` names no number.
///
/// # Errors
/// `Unsupported` that names it.
pub(super) fn of_bytes(
    name: &str,
    options: &Value,
    size: usize,
    shuffled: usize,
) -> Result<Filter> {
    let number = |key: &str| options[key].as_u64().and_then(|n| usize::try_from(n).ok());
    Ok(match name.strip_prefix("numcodecs.").unwrap_or(name) {
        "zlib" => Filter::Deflate,
        "gzip" => Filter::Gzip,
        "zstd" => Filter::Zstd,
        "blosc" => Filter::Blosc,
        "lz4" => Filter::SizedLz4,
        "bz2" => Filter::Bzip2,
        "lzma" => Filter::Lzma(lzma(options)?),
        "crc32c" => Filter::Crc32c,
        "fletcher32" => Filter::Fletcher32,
        // 0 leaves bytes where they are, as 1 does.
        "shuffle" => Filter::Shuffle { size: number("elementsize").unwrap_or(shuffled) },
        "bitshuffle" => Filter::Bitshuffle { size, block: 0, inner: Inner::Nothing },
        other => return Err(unknown("codec", other)),
    })
}

/// The container of a stream of LZMA, by the numbers of Python's module.
///
/// # Errors
/// `Unsupported` for raw streams with other filters than LZMA2 after differences of bytes.
fn lzma(options: &Value) -> Result<Lzma> {
    let number = |value: &Value, key: &str| value[key].as_u64();
    let refused = || unknown("codec", &format!("lzma with the options {options}"));
    match number(options, "format") {
        None | Some(1) => Ok(Lzma::Xz),
        Some(2) => Ok(Lzma::Alone),
        Some(3) => {
            let filters = options["filters"].as_array().map(Vec::as_slice).unwrap_or_default();
            let (last, first) = filters.split_last().ok_or_else(refused)?;
            let distance = match first {
                [] => None,
                [delta] if number(delta, "id") == Some(3) => {
                    let distance = number(delta, "dist").unwrap_or(1);
                    let distance = usize::try_from(distance).ok();
                    Some(distance.filter(|n| (1..=256).contains(n)).ok_or_else(refused)?)
                }
                _ => return Err(refused()),
            };
            let is_lzma2 = number(last, "id") == Some(0x21);
            is_lzma2.then_some(Lzma::Raw { distance }).ok_or_else(refused)
        }
        _ => Err(refused()),
    }
}

pub(super) fn unknown(what: &str, name: &str) -> Error {
    Error::unsupported(format!("the {what} {name:?} is not known to framefold"))
        .with_hint("rewrite the array in C order with Blosc, Zstandard, gzip or no compressor")
}
