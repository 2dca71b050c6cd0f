//! Rust source without its comments and strings.

/// Replaces comments, strings and character literals by spaces; line numbers stay.
pub(super) fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let len = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => line_len(&bytes[at..]),
            b'/' if bytes[at..].starts_with(b"/*") => block_comment_len(&bytes[at..]),
            b'"' => string_len(&bytes[at..]),
            b'\'' => char_len(&bytes[at..]),
            b'r' if !follows_identifier(bytes, at) => raw_string_len(&bytes[at..]),
            b'b' | b'c' if bytes.get(at + 1) == Some(&b'r') && !follows_identifier(bytes, at) => {
                raw_string_len(&bytes[at + 1..]).map(|len| len + 1)
            }
            _ => None,
        };
        match len {
            Some(len) => {
                let blank = |byte: &u8| if *byte == b'\n' { '\n' } else { ' ' };
                let end = (at + len).min(bytes.len());
                code.extend(bytes[at..end].iter().map(blank));
                at = end;
            }
            None => {
                code.push(if bytes[at].is_ascii() { char::from(bytes[at]) } else { '_' });
                at += 1;
            }
        }
    }
    code
}

fn follows_identifier(bytes: &[u8], at: usize) -> bool {
    at.checked_sub(1).is_some_and(|before| {
        let byte = bytes[before];
        byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
    })
}

fn line_len(bytes: &[u8]) -> Option<usize> {
    Some(bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len()))
}

/// Block comments nest.
fn block_comment_len(bytes: &[u8]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Some(at);
            }
        } else {
            at += 1;
        }
    }
    Some(bytes.len())
}

fn string_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
    Some(bytes.len())
}

/// A character literal; `None` for a lifetime.
fn char_len(bytes: &[u8]) -> Option<usize> {
    if bytes.get(1) == Some(&b'\\') {
        let end = bytes.iter().skip(3).position(|byte| *byte == b'\'')?;
        return Some(end + 4);
    }
    let rest = std::str::from_utf8(bytes.get(1..bytes.len().min(6))?);
    let valid = match &rest {
        Ok(rest) => rest,
        Err(error) => std::str::from_utf8(&bytes[1..1 + error.valid_up_to()]).ok()?,
    };
    let len = valid.chars().next()?.len_utf8();
    (bytes.get(1 + len) == Some(&b'\'')).then_some(len + 2)
}

/// `r"…"` or `r#"…"#`; `None` for anything else that begins with an r.
fn raw_string_len(bytes: &[u8]) -> Option<usize> {
    let hashes = bytes[1..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let end: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let body = 2 + hashes;
    let len = bytes[body..].windows(end.len()).position(|window| window == end);
    Some(len.map_or(bytes.len(), |len| body + len + end.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left, with runs of spaces joined.
    fn left(text: &str) -> String {
        code_only(text).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_go_and_lines_stay() {
        let code = code_only("a // b\n/* c\n/* d */ e */ f\n");
        assert_eq!(code.lines().count(), 3);
        assert_eq!(left("a // b\n/* c\n/* d */ e */ f\n"), "a f");
    }

    #[test]
    fn strings_go_with_all_their_escapes() {
        assert_eq!(left(r#"f("a \" b", c)"#), "f( , c)");
        assert_eq!(left("f(r#\"a \" b\"#, br\"x\", c)"), "f( , , c)");
        assert_eq!(left("f(\"// no comment\") // comment"), "f( )");
    }

    #[test]
    fn characters_go_and_lifetimes_stay() {
        assert_eq!(left("'\"' a '\\'' b 'ä' c '\\u{1F600}' d"), "a b c d");
        assert_eq!(left("fn f<'a>(x: &'a str)"), "fn f<'a>(x: &'a str)");
    }

    #[test]
    fn identifiers_that_end_in_r_are_no_raw_strings() {
        assert_eq!(left("for r in bar { attr\"x\" }"), "for r in bar { attr }");
    }
}
