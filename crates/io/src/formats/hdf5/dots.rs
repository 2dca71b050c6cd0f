//! Paths of links without `.`, which names nothing in them: the library looks for a group of that name.
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

use crate::headers::fields::number;

/// Looks at a message with a link; whether its path was changed.
pub(super) fn of_link(message: &mut [u8]) -> bool {
    path(message).is_some_and(without)
}

/// Looks at a heap of texts, names and paths of links, each with a 0 behind; no name has a slash.
pub(super) fn of_heap(texts: &mut [u8]) {
    for text in texts.split_mut(|&byte| byte == 0).filter(|text| text.contains(&b'/')) {
        without(text);
    }
}

/// The path that a link leads to, unless it is an object.
fn path(message: &mut [u8]) -> Option<&mut [u8]> {
    let &mut [1, flags, ..] = message else { return None };
    let at = if flags & 8 == 0 { return None } else { 3 };
    let kind = *message.get(2)?;
    let at = at + if flags & 4 == 0 { 0 } else { 8 } + if flags & 16 == 0 { 0 } else { 1 };
    let width = 1 << (flags & 3);
    let name = usize::try_from(number(message, at, width)?).ok()?;
    let at = at.checked_add(width)?.checked_add(name)?;
    let len = usize::try_from(number(message, at, 2)?).ok()?;
    let target = message.get_mut(at.checked_add(2)?..)?.get_mut(..len)?;
    match kind {
        1 => Some(target),
        64 => target.get_mut(1..)?.split_mut(|&byte| byte == 0).nth(1),
        _ => None,
    }
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
    fn what_is_cut_short_stays() {
        let soft = [&[1, 8 | 4 | 16, 1][..], &[0; 9], &[2], b"./", &[3, 0], b"./a"].concat();
        let hard = [&[1, 0, 1][..], b"a", b"./././././"].concat();
        for len in 0..=soft.len() {
            let mut bytes = soft[..len].to_vec();
            assert_eq!(of_link(&mut bytes), len == soft.len());
            assert!(len == soft.len() || bytes == soft[..len]);
        }
        assert!(!of_link(&mut hard.clone()));
    }
}
