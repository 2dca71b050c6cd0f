//! Texts as the library can read them: paths of links without `.`, which names nothing in them, as it looks for a
//! group of that name; and all in UTF-8, as it refuses a group or data set with others, such as those of older
//! programs. There, letters beyond ASCII become `?`; two names of a file that would be the same are an error.
//!
//! Slashes name nothing, either, and the library knows that: paths keep their lengths with them at the end.
//!
//! | message with a link | bytes |
//! |---|---|
//! | version 1, flags | 2 |
//! | type, if flags have 8: 1 within the file, 64 to another file | 1 |
//! | order, if flags have 4 | 8 |
//! | encoding, if flags have 16 | 1 |
//! | name | its length, in 1, 2, 4 or 8 bytes by flags, and the text |
//! | path within the file | a length of 2 bytes, and the text |
//! | path in another file | a length of 2 bytes, a byte, the file and the path, each with a 0 behind |
//!
//! Messages with an attribute: version, flags, three lengths of 2 bytes, the first of which is that of the name, a byte in
//! version 3, and the name.

use crate::headers::fields::number;
use hdf5_reader::error::Error;
use std::collections::HashMap;
use std::ops::Range;

/// Begins the words of that error.
pub(super) const SAME: &str = "several names differ only in letters that are not UTF-8, as";

/// What names of links in a file were, by what they are shown as: those with `?`.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<Vec<u8>, Vec<u8>>);

impl Names {
    /// Spells each name of a path, and of several with a 0 between them; whether one was changed.
    ///
    /// # Errors
    /// `Other` if another name is shown as the same.
    fn spell(&mut self, text: &mut [u8]) -> Result<bool, Error> {
        let mut changed = false;
        for name in text.split_mut(|byte| b"\0/".contains(byte)) {
            let before = name.to_vec();
            changed |= in_ascii(name);
            if name.contains(&b'?')
                && *self.0.entry(name.to_vec()).or_insert(before.clone()) != before
            {
                let name = String::from_utf8_lossy(name);
                return Err(Error::Other(format!("{SAME} '{name}'")));
            }
        }
        Ok(changed)
    }
}

/// Looks at a message with a link; whether it was changed.
///
/// # Errors
/// As [`Names::spell`].
pub(super) fn of_link(message: &mut [u8], names: &mut Names) -> Result<bool, Error> {
    let Some(name) = name(message) else { return Ok(false) };
    let (head, rest) = message.split_at_mut(name.end);
    let renamed = names.spell(head.get_mut(name.start..).unwrap_or_default())?;
    let kind = head.get(2).copied().filter(|_| head.get(1).is_some_and(|flags| flags & 8 != 0));
    let len = number(rest, 0, 2).and_then(|len| usize::try_from(len).ok());
    let target = len.and_then(|len| rest.get_mut(2..)?.get_mut(..len));
    let elsewhere = match (kind, target) {
        (Some(1), Some(path)) => names.spell(path)? | without(path),
        (Some(64), Some([_, texts @ ..])) => {
            let renamed = names.spell(texts)?;
            let path = texts.split_mut(|&byte| byte == 0).nth(1);
            renamed | path.is_some_and(without)
        }
        _ => false,
    };
    Ok(renamed | elsewhere)
}

/// Looks at a heap of texts, names and paths of links, each with a 0 behind; no name has a slash. What is free of it
/// is a list: each piece begins with the offset of the next one and its own length, of `width` bytes each.
///
/// # Errors
/// As [`Names::spell`].
pub(super) fn of_heap(
    texts: &mut [u8],
    mut free: usize,
    width: usize,
    names: &mut Names,
) -> Result<(), Error> {
    let number = |texts: &[u8], at| number(texts, at, width).and_then(|n| usize::try_from(n).ok());
    // The last one has 1.
    while free != 1 {
        let at = free.saturating_add(width);
        let (Some(next), Some(len)) = (number(texts, free), number(texts, at)) else { break };
        let piece =
            texts.get_mut(free..free.saturating_add(len)).filter(|piece| piece.len() >= 2 * width);
        let Some(piece) = piece else { break };
        piece.fill(0);
        free = next;
    }
    for text in texts.split_mut(|&byte| byte == 0) {
        names.spell(text)?;
        if text.contains(&b'/') {
            without(text);
        }
    }
    Ok(())
}

/// Looks at a message with an attribute; whether its name was changed.
pub(super) fn of_attribute(message: &mut [u8]) -> bool {
    let start = match message.first() {
        Some(1 | 2) => 8,
        Some(3) => 9,
        _ => return false,
    };
    let len = number(message, 2, 2).and_then(|len| usize::try_from(len).ok());
    len.and_then(|len| message.get_mut(start..)?.get_mut(..len)).is_some_and(in_ascii)
}

/// Where the name of a link is.
fn name(message: &[u8]) -> Option<Range<usize>> {
    let &[1, flags, ..] = message else { return None };
    let has = |flag: u8, bytes: usize| if flags & flag == 0 { 0 } else { bytes };
    let at = 2 + has(8, 1) + has(4, 8) + has(16, 1);
    let width = 1 << (flags & 3);
    let len = usize::try_from(number(message, at, width)?).ok()?;
    let start = at + width;
    let end = start.checked_add(len).filter(|&end| end <= message.len())?;
    Some(start..end)
}

/// Whether the text was none in UTF-8, and is one now.
pub(super) fn in_ascii(text: &mut [u8]) -> bool {
    let is_other = std::str::from_utf8(text).is_err();
    text.iter_mut().filter(|byte| is_other && !byte.is_ascii()).for_each(|byte| *byte = b'?');
    is_other
}

/// Whether the path was changed. One that leads nowhere else stays: the library has no words for it.
fn without(path: &mut [u8]) -> bool {
    let absolute: &[u8] = if path.starts_with(b"/") { b"/" } else { b"" };
    let parts: Vec<&[u8]> =
        path.split(|&byte| byte == b'/').filter(|part| !matches!(part, [] | [b'.'])).collect();
    let plain = [absolute, &parts.join(&b'/')].concat();
    if parts.is_empty() || !path.split(|&byte| byte == b'/').any(|part| part == b".") {
        return false;
    }
    path.fill(b'/');
    path.iter_mut().zip(plain).for_each(|(to, byte)| *to = byte);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_give_way_to_slashes() {
        for (path, plain) in [
            ("./a/b", "a/b//"),
            ("/./a/./b/.", "/a/b//////"),
            ("a/.b/c.", "a/.b/c."),
            ("a//b/", "a//b/"),
            (".", "."),
            ("/.", "/."),
            ("", ""),
        ] {
            let mut bytes = path.as_bytes().to_vec();
            assert_eq!(without(&mut bytes), path != plain);
            assert_eq!(String::from_utf8(bytes).unwrap(), plain);
        }
    }

    #[test]
    fn letters_that_are_not_utf_8_become_others() {
        let link = |name: &[u8; 3], kind, target: &[u8; 6]| {
            [&[1, 8 | 16, kind, 0, 3][..], name, &[6, 0], target].concat()
        };
        for (other, plain) in [
            (link(b"h\xe9.", 1, b"./\xe9a/b"), link(b"h?.", 1, b"?a/b//")),
            (link(b"abc", 64, b"\0\xe9\0/c\0"), link(b"abc", 64, b"\0?\0/c\0")),
            (link(b"\xe9\xe8a", 7, b"\xe9\xe9\xe9\xe9\xe9\xe9"), link(b"??a", 7, &[0xe9; 6])),
        ] {
            let mut bytes = other;
            assert!(of_link(&mut bytes, &mut Names::default()).unwrap());
            assert_eq!(bytes, plain);
            assert!(!of_link(&mut bytes, &mut Names::default()).unwrap());
        }
        let mut utf_8 = link("é.".as_bytes().try_into().unwrap(), 1, b"abc/de");
        assert!(!of_link(&mut utf_8, &mut Names::default()).unwrap());
        let mut heap = b"\0h\xe9\0/\xe9/./a\0\xc3\xa9\0".to_vec();
        of_heap(&mut heap, 1, 8, &mut Names::default()).unwrap();
        assert_eq!(heap, b"\0h?\0/?/a//\0\xc3\xa9\0");
    }

    #[test]
    fn names_that_would_be_the_same_are_refused() {
        for other in [&b"\xe8"[..], b"?", b"a/\xe8"] {
            let mut names = Names::default();
            assert!(names.spell(&mut b"\xe9".to_vec()).unwrap());
            assert!(names.spell(&mut b"a/\xe9/b".to_vec()).unwrap());
            assert!(names.spell(&mut other.to_vec()).is_err());
        }
        // Numbers in what is free of heaps are no names.
        let (mut names, mut heap) = (Names::default(), vec![0; 0xe8]);
        for (next, len) in [(1, 0xe0), (1, 0xd0), (0, 0xc0), (0xe0, 0xb0)] {
            heap[8] = next;
            heap[16] = len;
            of_heap(&mut heap.clone(), 8, 8, &mut names).unwrap();
        }
    }

    #[test]
    fn what_is_cut_short_stays() {
        let soft = [&[1, 8 | 4 | 16, 1][..], &[0; 9], &[2], b"./", &[3, 0], b"./a"].concat();
        let hard = [&[1, 0, 1][..], b"a", b"./././././"].concat();
        for len in 0..=soft.len() {
            let mut bytes = soft[..len].to_vec();
            assert_eq!(of_link(&mut bytes, &mut Names::default()).unwrap(), len == soft.len());
            assert!(len == soft.len() || bytes == soft[..len]);
        }
        assert!(!of_link(&mut hard.clone(), &mut Names::default()).unwrap());
    }
}
