//! What lets a browser in.

use framefold::{Error, Result};
use std::fmt;
use std::hint::black_box;

/// 256 random bits, from the system.
pub(super) struct Secret(String);

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// `Io` if the system has none.
    pub(super) fn new() -> Result<Self> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)
            .map_err(|error| Error::io("get a random token", std::io::Error::other(error)))?;
        Ok(Secret(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Whether `text` is the secret; how long that takes does not depend on where it differs.
    pub(super) fn is(&self, text: &str) -> bool {
        let (own, other) = (self.0.as_bytes(), text.as_bytes());
        let differ = own.iter().zip(other).fold(0, |differ, (a, b)| black_box(differ | (a ^ b)));
        own.len() == other.len() && black_box(differ) == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_differ_and_are_compared_whole() {
        let (one, other) = (Secret::new().unwrap(), Secret::new().unwrap());
        assert_eq!(one.text().len(), 64);
        assert!(one.is(one.text()) && !one.is(other.text()) && !one.is(""));
        assert!(!one.is(&one.text()[..63]) && !one.is(&format!("{}0", one.text())));
        for i in 0..64 {
            let mut text = one.text().to_owned();
            let digit = if text.as_bytes()[i] == b'0' { "1" } else { "0" };
            text.replace_range(i..=i, digit);
            assert!(!one.is(&text), "{i}");
        }
        assert_eq!(format!("{one:?}"), "Secret(…)");
    }
}
