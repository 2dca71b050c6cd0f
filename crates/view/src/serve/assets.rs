//! The page, its script and its style: as built from `web/`, in the program.

use super::security::{Answer, answer};
use crate::page::{PAGE, SCRIPT, STYLE};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderValue};
use std::sync::OnceLock;

/// A file that is the same for everybody.
pub(super) struct Asset {
    media_type: &'static str,
    plain: &'static [u8],
    /// Compressed at the first request for that; `None` if it does not get smaller.
    gzip: OnceLock<Option<Bytes>>,
}

/// All of them. No secret is in any, so that lengths tell nothing.
pub(super) struct Assets {
    pub(super) page: Asset,
    pub(super) script: Asset,
    pub(super) style: Asset,
}

impl Assets {
    pub(super) fn new() -> Self {
        let asset = |media_type, plain| Asset { media_type, plain, gzip: OnceLock::new() };
        Assets {
            page: asset("text/html; charset=utf-8", PAGE),
            script: asset("text/javascript; charset=utf-8", SCRIPT),
            style: asset("text/css; charset=utf-8", STYLE),
        }
    }
}

impl Asset {
    /// The file, compressed where the browser says that it takes that.
    pub(super) fn answer(&self, headers: &HeaderMap) -> Answer {
        let packed = takes_gzip(headers).then(|| self.gzip.get_or_init(|| gzip(self.plain)));
        let packed = packed.and_then(Clone::clone);
        let is_packed = packed.is_some();
        let body = packed.unwrap_or(Bytes::from_static(self.plain));
        let mut answer = answer(StatusCode::OK, self.media_type, body);
        let headers = answer.headers_mut();
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        if is_packed {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        answer
    }
}

fn gzip(plain: &[u8]) -> Option<Bytes> {
    let mut tool = libdeflater::Compressor::new(libdeflater::CompressionLvl::best());
    let mut packed = vec![0; tool.gzip_compress_bound(plain.len())];
    let len = tool.gzip_compress(plain, &mut packed).ok()?;
    packed.truncate(len);
    (len < plain.len()).then(|| Bytes::from(packed))
}

/// Whether answers may be compressed with gzip (RFC 9110, section 12.5.3).
fn takes_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT_ENCODING);
    let texts = lines.iter().filter_map(|line| line.to_str().ok());
    let mut of_gzip = None;
    let mut of_any = None;
    for item in texts.flat_map(|text| text.split(',')) {
        let (name, rest) = item.split_once(';').unwrap_or((item, ""));
        let weight = rest.split(';').map(str::trim).find_map(|part| {
            let name = part.get(..2)?.eq_ignore_ascii_case("q=");
            name.then(|| &part[2..])
        });
        // What is no number is no consent.
        let takes = weight.is_none_or(|weight| weight.parse().is_ok_and(|q: f32| q > 0.0));
        match name.trim() {
            name if name.eq_ignore_ascii_case("gzip") => of_gzip = Some(takes),
            "*" => of_any = Some(takes),
            _ => {}
        }
    }
    of_gzip.or(of_any).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static(line));
        }
        headers
    }

    #[test]
    fn browsers_say_what_they_take() {
        for (lines, takes) in [
            (&[][..], false),
            (&[""], false),
            (&["gzip, deflate, br, zstd"], true),
            (&["br", "GZip"], true),
            (&["*"], true),
            (&["*;q=0.5"], true),
            (&["gzip;q=0, *"], false),
            (&["gzip; q=0"], false),
            (&["gzip;Q=0.000"], false),
            (&["gzip;q=1.0;x=y"], true),
            (&["gzip;q=yes"], false),
            (&["identity"], false),
            (&["gzipped"], false),
            (&["*;q=0, gzip"], true),
        ] {
            assert_eq!(takes_gzip(&headers(lines)), takes, "{lines:?}");
        }
    }

    #[test]
    fn what_is_compressed_is_the_same() {
        let assets = Assets::new();
        let mut tool = libdeflater::Decompressor::new();
        for asset in [&assets.page, &assets.script, &assets.style] {
            let packed = gzip(asset.plain).unwrap();
            let mut plain = vec![0; asset.plain.len()];
            assert_eq!(tool.gzip_decompress(&packed, &mut plain).unwrap(), plain.len());
            assert!(plain == asset.plain && packed.len() < plain.len());
        }
        assert_eq!(gzip(b"x"), None);
    }
}
