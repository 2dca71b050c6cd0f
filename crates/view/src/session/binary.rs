//! Arrays that clients send.

use super::Refusal;
use super::reply::{About, MAGIC};
use super::request::about;
use framefold::Error;
use serde::Deserialize;
use serde_json::Value;

/// The longest header, in bytes.
const MAX_HEADER: usize = 1 << 16;

/// A mask, as it was sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SentMask {
    pub(super) name: String,
    pub(super) weights: Weights,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Weights {
    /// Of this shape.
    Plain(Vec<usize>, Vec<f32>),
    /// The bytes of a file.
    Npy(Vec<u8>),
}

#[derive(Deserialize)]
struct Header {
    #[serde(rename = "type")]
    kind: String,
    id: u64,
    #[serde(default)]
    name: String,
    #[serde(default)]
    format: Option<String>,
    #[serde(default)]
    dtype: Option<String>,
    #[serde(default)]
    shape: Vec<usize>,
}

/// The mask of a binary message; or what is wrong with it, and what the answer is about.
pub(super) fn parse(bytes: &[u8]) -> Result<(u64, SentMask), Refusal> {
    let (value, rest) = split(bytes).map_err(|error| (error, About::Nothing))?;
    let about = about(&value);
    let wrong = |error: Error| (error, about);
    let header = Header::deserialize(value)
        .map_err(|error| wrong(Error::invalid(format!("a binary message is wrong: {error}"))))?;
    if header.kind != "mask" {
        let text =
            format!("a binary message of type '{}' was received, 'mask' expected", header.kind);
        return Err(wrong(Error::invalid(text)));
    }
    let weights = match (header.format.as_deref(), header.dtype.as_deref()) {
        (Some("npy"), _) => Weights::Npy(rest.to_vec()),
        (None, Some("f32")) => plain(header.shape, rest).map_err(wrong)?,
        (format, dtype) => {
            return Err(wrong(Error::invalid(format!(
                "a mask of format {format:?} and dtype {dtype:?} was received; expected the format \
                 'npy', or the dtype 'f32'"
            ))));
        }
    };
    Ok((header.id, SentMask { name: header.name, weights }))
}

/// The header, and what follows it.
fn split(bytes: &[u8]) -> Result<(Value, &[u8]), Error> {
    let no = || Error::invalid("a binary message does not begin with 'FFV1' and a header");
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(no)?;
    let (len, rest) = rest.split_first_chunk::<4>().ok_or_else(no)?;
    let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|_| no())?;
    if len > MAX_HEADER {
        return Err(Error::limit(format!(
            "the header of a binary message has {len} bytes, at most {MAX_HEADER} are allowed"
        )));
    }
    let (header, rest) = rest.split_at_checked(len).ok_or_else(no)?;
    let value = serde_json::from_slice(header)
        .map_err(|error| Error::invalid(format!("the header of a message is not JSON: {error}")))?;
    Ok((value, rest))
}

fn plain(shape: Vec<usize>, bytes: &[u8]) -> Result<Weights, Error> {
    let n = shape.iter().try_fold(4_usize, |n, len| n.checked_mul(*len));
    if n != Some(bytes.len()) {
        return Err(Error::invalid(format!(
            "a mask of shape {shape:?} came with {} bytes, which is not 4 for each pixel",
            bytes.len()
        )));
    }
    let weights = bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
    Ok(Weights::Plain(shape, weights))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::reply::binary;
    use serde_json::json;

    fn sent(header: Value, bytes: &[u8]) -> Result<(u64, SentMask), Refusal> {
        parse(&binary(&header, bytes.len(), |message| message.extend_from_slice(bytes)))
    }

    #[test]
    fn weights_and_files() {
        let header = json!({"type": "mask", "id": 3, "name": "m", "shape": [1, 2], "dtype": "f32"});
        let (id, mask) = sent(header, &[1.5_f32, -1.0].map(f32::to_le_bytes).concat()).unwrap();
        assert_eq!((id, mask.name.as_str()), (3, "m"));
        assert_eq!(mask.weights, Weights::Plain(vec![1, 2], vec![1.5, -1.0]));
        let (_, mask) = sent(json!({"type": "mask", "id": 3, "format": "npy"}), b"xyz").unwrap();
        assert_eq!(mask.weights, Weights::Npy(b"xyz".to_vec()));
    }

    #[test]
    fn garbage_is_refused_in_words() {
        let huge = json!({"type": "mask", "id": 3, "shape": [usize::MAX, 2], "dtype": "f32"});
        let text = |result: Result<_, Refusal>| result.unwrap_err().0.to_string();
        assert!(text(sent(huge, &[])).contains("shape"));
        let mut cases: Vec<Vec<u8>> = vec![vec![], b"FFV".to_vec(), b"FFV1".to_vec(), vec![0; 100]];
        cases.push(b"FFV1\xff\xff\xff\xff".to_vec());
        cases.push(b"FFV1\x08\0\0\0{}".to_vec());
        cases.push(b"FFV1\x02\0\0\0{}".to_vec());
        cases.push(b"FFV1\x02\0\0\0\xff\xff".to_vec());
        for case in cases {
            assert!(!text(parse(&case)).is_empty(), "{case:?}");
        }
        let other = sent(json!({"type": "ask", "id": 3}), &[]).unwrap_err();
        assert_eq!(other.1, About::Id(3));
        let short = json!({"type": "mask", "id": 3, "shape": [2, 2], "dtype": "f32"});
        assert!(text(sent(short, &[0; 12])).contains("[2, 2]"));
    }
}
