//! What an input is: options, and the files of a data set.
//!
//! | bytes | content |
//! |---|---|
//! | 16 | [`crate::Choices`]; zeros choose nothing |
//! | … | the file that is opened; with none of its bytes, but further files, it is not there |
//! | `\n=== NAME\n` | begins a further file of that name |
//! | `\n=== NAME N\n` | the same; it is made `N` bytes long with zeros |
//! | `\n=== #NAME\n` | 40 bytes each begin a block of a K2 IS sector; `*` in the name: eight of them |
//!
//! Any bytes are an input: what is no valid name is part of the file before it. Changes within one
//! file leave the others as they are, so that random changes make sense.

const CHOICES: usize = 16;
const MARK: &[u8] = b"\n=== ";
const LONGEST_NAME: usize = 60;
const MOST_FOLDERS: usize = 12;
const MOST_FILES: usize = 24;
/// Files are not made longer than that.
const LONGEST_PADDING: u64 = 4 << 20;

/// An input, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// See [`crate::Choices`].
    pub choices: [u8; CHOICES],
    /// The files; the first one, whose name is empty, is the one that is opened.
    pub parts: Vec<Part>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Relative to the folder, with forward slashes.
    pub name: String,
    /// At least so many bytes, the missing ones being zeros.
    pub padded: u64,
    /// Whether these are headers of blocks.
    pub blocks: bool,
    /// What it holds.
    pub bytes: Vec<u8>,
}

impl Input {
    /// Takes any bytes apart.
    pub fn parse(data: &[u8]) -> Input {
        let (head, mut rest) = data.split_at(data.len().min(CHOICES));
        let mut choices = [0; CHOICES];
        choices[..head.len()].copy_from_slice(head);
        let mut part = Part { name: String::new(), padded: 0, blocks: false, bytes: Vec::new() };
        let mut parts = Vec::new();
        while let Some(at) = rest.windows(MARK.len()).position(|bytes| bytes == MARK) {
            let after = &rest[at + MARK.len()..];
            let line = after.iter().take(LONGEST_NAME + 1).position(|&byte| byte == b'\n');
            let next = line.and_then(|end| after.get(..end)).and_then(Part::named);
            match (next, line) {
                (Some(next), Some(end)) if parts.len() + 1 < MOST_FILES => {
                    part.bytes.extend_from_slice(&rest[..at]);
                    parts.push(std::mem::replace(&mut part, next));
                    rest = &after[end + 1..];
                }
                _ => {
                    part.bytes.extend_from_slice(&rest[..at + MARK.len()]);
                    rest = after;
                }
            }
        }
        part.bytes.extend_from_slice(rest);
        parts.push(part);
        Input { choices, parts }
    }

    /// Bytes of all files together, as they are written.
    pub fn len_bytes(&self) -> usize {
        let len = |part: &Part| {
            let padded = usize::try_from(part.padded).unwrap_or(usize::MAX);
            // Eight sectors, and 559 bytes for each of a header's.
            if part.blocks { part.bytes.len() * 559 * 8 } else { part.bytes.len().max(padded) }
        };
        self.parts.iter().map(len).sum()
    }

    /// The input as bytes; [`Input::parse`] undoes it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut data = self.choices.to_vec();
        for part in &self.parts {
            if !part.name.is_empty() {
                data.extend_from_slice(MARK);
                data.extend_from_slice(if part.blocks { b"#" } else { b"" });
                data.extend_from_slice(part.name.as_bytes());
                if part.padded > 0 {
                    data.extend_from_slice(format!(" {}", part.padded).as_bytes());
                }
                data.push(b'\n');
            }
            data.extend_from_slice(&part.bytes);
        }
        data
    }
}

impl Part {
    /// A file by the line that names it, if that is a path that stays in its folder.
    fn named(line: &[u8]) -> Option<Part> {
        let line = std::str::from_utf8(line).ok()?;
        let (line, blocks) = match line.strip_prefix('#') {
            Some(rest) => (rest, true),
            None => (line, false),
        };
        let (name, padded) = match line.split_once(' ') {
            Some((name, padded)) => (name, padded.parse().ok()?),
            None => (line, 0),
        };
        let plain = |part: &str| {
            let known = |c: char| c.is_ascii_alphanumeric() || "._-*".contains(c);
            !part.is_empty() && part != "." && part != ".." && part.chars().all(known)
        };
        let fits = name.split('/').count() <= MOST_FOLDERS && name.split('/').all(plain);
        (fits && padded <= LONGEST_PADDING && (blocks || !name.contains('*'))).then(|| Part {
            name: name.to_owned(),
            padded,
            blocks,
            bytes: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_an_input() {
        for data in
            [&b""[..], b"\0\0", &[7; 16], b"0123456789abcdef\n=== ", b"0123456789abcdef=== a\n"]
        {
            let input = Input::parse(data);
            assert_eq!(input.parts.len(), 1);
            assert!(input.to_bytes().starts_with(data), "{data:?}");
        }
    }

    #[test]
    fn files_are_split_and_put_together_again() {
        let data =
            b"0123456789abcdefmain\n=== a/b.raw 100\nraw\n=== #s*.bin\n40\n=== ../up\n\n=== x y\n";
        let input = Input::parse(data);
        let names: Vec<_> = input.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["", "a/b.raw", "s*.bin"]);
        assert_eq!(input.parts[0].bytes, b"main");
        assert_eq!((input.parts[1].padded, input.parts[2].blocks), (100, true));
        assert_eq!(input.parts[2].bytes, b"40\n=== ../up\n\n=== x y\n");
        assert_eq!(input.to_bytes(), data);
    }
}
