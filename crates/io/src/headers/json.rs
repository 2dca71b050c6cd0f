//! JSON as Python writes it: with NaN and infinities, for which JSON has no words.

use serde_json::Value;

/// What Python writes in the place of numbers; the longest first.
const WORDS: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];

/// The value that the text stands for, in which these words are texts.
///
/// # Errors
/// Where the text is no JSON.
pub(crate) fn parse(text: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(text)
        .or_else(|error| serde_json::from_slice(&quoted(text)).map_err(|_| error))
}

/// The text with quotes around these words, where they are not within a text.
fn quoted(text: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(text.len());
    let (mut rest, mut within) = (text, false);
    while let [first, after @ ..] = rest {
        let word = WORDS.into_iter().find(|word| !within && rest.starts_with(word));
        if let Some(word) = word {
            quoted.extend([b"\"", word, b"\""].concat());
            rest = rest.strip_prefix(word).unwrap_or(after);
            continue;
        }
        quoted.push(*first);
        rest = after;
        match (first, after) {
            (b'"', _) => within = !within,
            (b'\\', [escaped, after @ ..]) if within => {
                quoted.push(*escaped);
                rest = after;
            }
            _ => {}
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_of_python_are_texts() {
        let text = r#"{"a": NaN, "NaN": [-Infinity, Infinity, -1], "b": "\" NaN \\", "c": [NaN]}"#;
        let expected = json!({
            "a": "NaN",
            "NaN": ["-Infinity", "Infinity", -1],
            "b": "\" NaN \\",
            "c": ["NaN"],
        });
        assert_eq!(parse(text.as_bytes()).unwrap(), expected);
        for damaged in ["", "{", "[nan]", "[NaN", "NaNs", "\"\\", "-NaN"] {
            assert!(parse(damaged.as_bytes()).is_err(), "{damaged}");
        }
    }
}
