//! What the JSON beside an array says: shape, dtype, chunks and codecs, in versions 2 and 3.

use super::codecs::{self, unknown};
use super::place::Place;
use crate::codec::Pipeline;
use framefold_core::{DType, Error, Result, StoredDType, narrow_f16};
use serde_json::Value;

/// The files that describe an array, by the version of the format.
const VERSION_2: &str = ".zarray";
const VERSION_3: &str = "zarr.json";
/// Bytes of an element that version 2's `shuffle` takes apart where it names no number.
const SHUFFLED: usize = 4;
/// What version 3 has to say about an array. What else there is may change what pixels are, unless it
/// says that it need not be understood.
const FIELDS: [&str; 11] = [
    "zarr_format",
    "node_type",
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "codecs",
    "fill_value",
    "attributes",
    "dimension_names",
    "storage_transformers",
];

/// One array, as described.
#[derive(Clone, Debug)]
pub(super) struct Meta {
    pub(super) version: u8,
    pub(super) shape: Vec<usize>,
    /// The chunks that were compressed one by one.
    pub(super) chunk: Vec<usize>,
    pub(super) dtype: StoredDType,
    pub(super) fill: Vec<u8>,
    pub(super) pipeline: Pipeline,
    /// The axes in the order in which they vary in a chunk, slowest first.
    pub(super) order: Vec<usize>,
    pub(super) keys: Keys,
    /// Chunks of several files each, where that is how it is.
    pub(super) shards: Option<Shards>,
}

/// How the file of a chunk is called.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    /// `c` in version 3.
    pub(super) prefix: &'static str,
    pub(super) separator: char,
}

/// Files that hold several chunks each.
#[derive(Clone, Debug)]
pub(super) struct Shards {
    /// The shape of a file.
    pub(super) shape: Vec<usize>,
    /// Whether the index is at the end, or at the start.
    pub(super) at_end: bool,
    /// Whether a checksum follows the index.
    pub(super) checked: bool,
}

/// What is known of an array that cannot be read.
pub(super) enum Claim {
    /// That it holds no numbers, or nothing.
    NoFrames,
    Shape(Vec<usize>),
    Unknown,
}

impl Meta {
    /// The array in a folder; `None` if there is none.
    ///
    /// # Errors
    /// `BadFile` or `Unsupported` that names what cannot be understood.
    pub(super) fn read(folder: &Place) -> Result<Option<Meta>> {
        // Where both are there, version 3 counts, as it does for zarr-python.
        let (name, meta) = match folder.json(VERSION_3)? {
            Some(meta) if meta.get("node_type").is_some_and(|node| node == "array") => {
                (VERSION_3, Meta::of_version_3(&meta).map(Some))
            }
            Some(_) => return Ok(None),
            None => match folder.json(VERSION_2)? {
                Some(meta) => (VERSION_2, Meta::of_version_2(&meta).map(Some)),
                None => return Ok(None),
            },
        };
        meta.map_err(|error| error.with_path(folder.file(name)))
    }

    fn of_version_2(meta: &Value) -> Result<Meta> {
        let dtype = meta["dtype"].as_str().ok_or_else(|| not_numbers(&meta["dtype"]))?;
        let dtype = StoredDType::parse(dtype).map_err(|_| not_numbers(&meta["dtype"]))?;
        let mut elements = dtype;
        let mut filters = Vec::new();
        let compressor = Some(&meta["compressor"]).filter(|compressor| compressor.is_object());
        for filter in meta["filters"].as_array().into_iter().flatten().chain(compressor) {
            let name = filter["id"].as_str().unwrap_or_default();
            match codecs::of_elements(name, filter, elements)? {
                Some(found) => filters.extend(found.step(&mut elements)),
                None => {
                    let size = elements.dtype.size();
                    filters.push(codecs::of_bytes(name, filter, size, SHUFFLED)?);
                }
            }
        }
        let separator = separator(meta.get("dimension_separator"), '.')?;
        let shape = lengths(meta, "shape")?;
        let order = match meta["order"].as_str() {
            None | Some("C") => (0..shape.len()).collect(),
            Some("F") => (0..shape.len()).rev().collect(),
            Some(other) => return Err(unknown("order", other)),
        };
        Ok(Meta {
            version: 2,
            shape,
            chunk: lengths(meta, "chunks")?,
            dtype,
            fill: fill(&meta["fill_value"], dtype)?,
            pipeline: Pipeline(filters),
            order,
            keys: Keys { prefix: "", separator },
            shards: None,
        })
    }

    fn of_version_3(meta: &Value) -> Result<Meta> {
        understood(meta)?;
        let name =
            codecs::name(&meta["data_type"]).ok_or_else(|| not_numbers(&meta["data_type"]))?;
        let dtype = StoredDType::parse(name).map_err(|_| not_numbers(&meta["data_type"]))?.dtype;
        let grid = &meta["chunk_grid"];
        if codecs::name(grid) != Some("regular") {
            return Err(unknown("chunk grid", codecs::name(grid).unwrap_or("none")));
        }
        let mut chunk = lengths(&grid["configuration"], "chunk_shape")?;
        let encoding = &meta["chunk_key_encoding"];
        let (prefix, default) = match codecs::name(encoding) {
            Some("default") => ("c", '/'),
            Some("v2") => ("", '.'),
            other => return Err(unknown("chunk key encoding", other.unwrap_or("none"))),
        };
        let separator = separator(encoding["configuration"].get("separator"), default)?;
        let mut steps = meta["codecs"].as_array().cloned().unwrap_or_default();
        let mut shards = None;
        if let [shard] = steps.as_slice()
            && shard["name"] == "sharding_indexed"
        {
            let configuration = &shard["configuration"];
            let index = configuration["index_codecs"].as_array().cloned().unwrap_or_default();
            let names: Vec<&str> = index.iter().filter_map(codecs::name).collect();
            let checked = match names[..] {
                ["bytes"] => false,
                ["bytes", "crc32c"] => true,
                _ => return Err(unknown("codecs of the index", &names.join(", "))),
            };
            let endian = |codec: &Value| codec["configuration"].get("endian").cloned();
            if index.iter().any(|codec| endian(codec).is_some_and(|endian| endian == "big")) {
                return Err(unknown("byte order of the index", "big"));
            }
            let at_end = configuration["index_location"] != "start";
            let inner = lengths(configuration, "chunk_shape")?;
            let fits = inner.len() == chunk.len()
                && chunk.iter().zip(&inner).all(|(outer, inner)| outer.is_multiple_of(*inner));
            if !fits {
                return Err(Error::bad_file(format!(
                    "files of {chunk:?} cannot hold whole chunks of {inner:?}"
                )));
            }
            shards = Some(Shards { shape: std::mem::replace(&mut chunk, inner), at_end, checked });
            steps = configuration["codecs"].as_array().cloned().unwrap_or_default();
        }
        let shape = lengths(meta, "shape")?;
        let (stored, order, filters) = codecs::chain(&steps, dtype, shape.len())?;
        Ok(Meta {
            version: 3,
            shape,
            chunk,
            dtype: stored,
            fill: fill(&meta["fill_value"], stored)?,
            pipeline: Pipeline(filters),
            order,
            keys: Keys { prefix, separator },
            shards,
        })
    }

    /// What an array that cannot be read could hold.
    pub(super) fn claim(folder: &Place) -> Claim {
        let found = [VERSION_3, VERSION_2].map(|name| folder.json(name).transpose());
        let Some(Ok(meta)) = found.into_iter().flatten().next() else { return Claim::Unknown };
        let dtype = meta.get("dtype").or(meta.get("data_type")).and_then(codecs::name);
        let is_empty = |len: &Value| len.as_u64() == Some(0);
        if dtype.is_none_or(|dtype| StoredDType::parse(dtype).is_err())
            || meta
                .get("shape")
                .and_then(Value::as_array)
                .is_some_and(|lens| lens.iter().any(is_empty))
        {
            return Claim::NoFrames;
        }
        lengths(&meta, "shape").map_or(Claim::Unknown, Claim::Shape)
    }

    /// The file that says all this.
    pub(super) fn file_name(&self) -> &'static str {
        if self.version == 2 { VERSION_2 } else { VERSION_3 }
    }
}

/// What stands between the numbers of a chunk in the name of its file. With another one, no file would have
/// such a name, and chunks without a file are full of the fill value.
fn separator(said: Option<&Value>, default: char) -> Result<char> {
    match said {
        None | Some(Value::Null) => Ok(default),
        Some(Value::String(text)) if text == "." => Ok('.'),
        Some(Value::String(text)) if text == "/" => Ok('/'),
        Some(other) => {
            Err(unknown("separator of chunk keys", other.as_str().unwrap_or("that is no text")))
        }
    }
}

/// Checks that all is known that has to be understood in a description of version 3.
///
/// # Errors
/// `Unsupported` that names what is not known.
fn understood(meta: &Value) -> Result<()> {
    if meta["zarr_format"] != 3 {
        return Err(unknown("version", &meta["zarr_format"].to_string()));
    }
    let needed = |(name, value): &(&String, &Value)| {
        !FIELDS.contains(&name.as_str()) && value["must_understand"] != false
    };
    if let Some((name, _)) = meta.as_object().into_iter().flatten().find(needed) {
        return Err(unknown("field", name));
    }
    match meta["storage_transformers"].get(0) {
        Some(first) => Err(unknown("storage transformer", codecs::name(first).unwrap_or("none"))),
        None => Ok(()),
    }
}

fn lengths(meta: &Value, name: &str) -> Result<Vec<usize>> {
    let lens = meta[name].as_array().map(|lens| {
        let lens = lens.iter().map(|len| len.as_u64().and_then(|len| usize::try_from(len).ok()));
        lens.map(|len| len.filter(|&len| len > 0)).collect::<Option<Vec<usize>>>()
    });
    lens.flatten().ok_or_else(|| {
        Error::bad_file(format!("'{name}' is {}, not a list of lengths from 1 up", meta[name]))
    })
}

/// One element of what was never written.
fn fill(value: &Value, stored: StoredDType) -> Result<Vec<u8>> {
    let size = stored.dtype.size();
    let bad = || Error::bad_file(format!("the fill value {value} is none of {}", stored.dtype));
    let number = |value: &Value| match value {
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        Value::Bool(value) => Some(f64::from(u8::from(*value))),
        value => value.as_f64(),
    };
    let float = |value: &Value, size: usize| -> Result<Vec<u8>> {
        if let Some(bits) = value.as_str().and_then(|text| bits(text, size)) {
            return Ok(bits);
        }
        let value = number(value).ok_or_else(bad)?;
        Ok(match size {
            2 => narrow_f16(value).to_le_bytes().to_vec(),
            4 => (value as f32).to_le_bytes().to_vec(),
            _ => value.to_le_bytes().to_vec(),
        })
    };
    let mut bytes: Vec<u8> = match (value, stored.dtype) {
        (Value::Null, _) => vec![0; size],
        (Value::Array(parts), DType::C64 | DType::C128) => {
            let [real, imaginary] = parts.as_slice() else { return Err(bad()) };
            [float(real, size / 2)?, float(imaginary, size / 2)?].concat()
        }
        (value, dtype) if dtype.is_complex() => {
            [float(value, size / 2)?, vec![0; size / 2]].concat()
        }
        (value, dtype) if dtype.is_float() => float(value, size)?,
        (value, dtype) => {
            let whole = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
            let whole = whole.or_else(|| value.as_bool().map(i128::from));
            let whole =
                whole.or_else(|| value.as_f64().filter(|v| v.fract() == 0.0).map(|v| v as i128));
            let whole = whole.filter(|&whole| holds(dtype, whole)).ok_or_else(bad)?;
            whole.to_le_bytes().get(..size).unwrap_or_default().to_vec()
        }
    };
    if stored.order == framefold_core::ByteOrder::Big {
        bytes.chunks_mut(stored.dtype.swap_size()).for_each(<[u8]>::reverse);
    }
    Ok(bytes)
}

/// The bits of a number of `size` bytes, written as `0x7fc00000`, with all digits; in little endian.
fn bits(text: &str, size: usize) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 2 * size)?;
    let digits = digits.chars().all(|c| c.is_ascii_hexdigit()).then_some(digits)?;
    u64::from_str_radix(digits, 16).ok()?.to_le_bytes().get(..size).map(<[u8]>::to_vec)
}

/// Whether a number is one of an integer dtype, or of truth values.
fn holds(dtype: DType, whole: i128) -> bool {
    let bits = 8 * dtype.size();
    let range = match dtype {
        DType::Bool => 0..2,
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => -1 << (bits - 1)..1 << (bits - 1),
        _ => 0..1 << bits,
    };
    range.contains(&whole)
}

fn not_numbers(dtype: &Value) -> Error {
    Error::unsupported(format!("the elements are {dtype}, not numbers of a known kind"))
        .with_hint("name another array by ds_path")
}
