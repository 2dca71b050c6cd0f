//! Pictures as bytes: as exact as the client wants them.
//!
//! `f32` and `f64` are the values; where single precision would not do, `f32` is `f64`. `u8` and `u16` are codes: the value is `offset + scale × code`, and the largest
//! code is "no data". Whole numbers whose range fits the codes come with `scale` 1 and are exact. Where most values
//! would be one code, though they differ, the next finer form is sent.

use super::reply;
use super::request::Pane;
use crate::Picture;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// In which form values are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Codes of one byte.
    #[default]
    U8,
    /// Codes of two bytes.
    U16,
    /// Single precision, where that is nearly what was computed.
    F32,
    /// As they were computed.
    F64,
}

/// The part of the range of values by which single precision may be off.
const MOST_OFF: f64 = 1e-3;

impl Precision {
    /// Double precision in the place of single precision, if that would change a whole number, or one of the others by
    /// more than a thousandth of their range: as of small differences of large values.
    fn enough_for(self, values: &[f64]) -> Self {
        if self != Precision::F32 {
            return self;
        }
        let (low, high) = range(values);
        let most = MOST_OFF * (high - low);
        let kept = |value: f64| {
            let single = f64::from(value as f32);
            single == value || (value.fract() != 0.0 && (single - value).abs() <= most)
        };
        let kept = values.iter().all(|value| !value.is_finite() || kept(*value));
        if kept { self } else { Precision::F64 }
    }
}

/// The smallest and the largest of the finite values; with none, the other way round.
fn range(values: &[f64]) -> (f64, f64) {
    let finite = values.iter().copied().filter(|value| value.is_finite());
    finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
}

/// The binary message of a picture: `pane` is `scan` or `pattern`, `generation` that of the question.
pub fn encode(picture: &Picture, pane: &str, generation: u64, precision: Precision) -> Vec<u8> {
    let values = &picture.values;
    let precision = precision.enough_for(values);
    match precision {
        Precision::U8 => {
            let codes = Codes::of(values, u8::MAX.into());
            if codes.flatten(values) {
                return encode(picture, pane, generation, Precision::U16);
            }
            message(picture, pane, generation, precision, codes.map(), values.len(), |out| {
                out.extend(values.iter().map(|value| codes.code(*value) as u8));
            })
        }
        Precision::U16 => {
            let codes = Codes::of(values, u16::MAX);
            if codes.flatten(values) {
                return encode(picture, pane, generation, Precision::F32);
            }
            message(picture, pane, generation, precision, codes.map(), 2 * values.len(), |out| {
                out.extend(values.iter().flat_map(|value| codes.code(*value).to_le_bytes()));
            })
        }
        Precision::F32 => {
            message(picture, pane, generation, precision, (1.0, 0.0), 4 * values.len(), |out| {
                out.extend(values.iter().flat_map(|value| (*value as f32).to_le_bytes()));
            })
        }
        Precision::F64 => {
            message(picture, pane, generation, precision, (1.0, 0.0), 8 * values.len(), |out| {
                out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            })
        }
    }
}

pub(super) fn encode_for(
    picture: &Picture,
    pane: Pane,
    generation: u64,
    precision: Precision,
) -> Vec<u8> {
    encode(picture, pane.name(), generation, precision)
}

fn message(
    picture: &Picture,
    pane: &str,
    generation: u64,
    precision: Precision,
    (scale, offset): (f64, f64),
    len: usize,
    add: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let Picture { planes, shape, stride, state, label, progress, axes, .. } = picture;
    let header: Value = json!({
        "type": "picture",
        "pane": pane,
        "gen": generation,
        "dtype": precision,
        "planes": planes,
        "shape": shape,
        "stride": stride,
        "state": state,
        "label": label,
        "progress": progress,
        "scale": scale,
        "offset": offset,
        "axes": axes,
    });
    reply::binary(&header, len, add)
}

/// The largest value that has a code of its own.
const LARGEST: f64 = f64::MAX / 4.0;

/// How values become codes.
struct Codes {
    scale: f64,
    offset: f64,
    /// The largest code of a value; the next one is "no data".
    last: f64,
}

impl Codes {
    fn of(values: &[f64], no_data: u16) -> Self {
        let last = f64::from(no_data.saturating_sub(1));
        let mut finite = values.iter().copied().filter(|value| value.is_finite());
        let (low, high) = range(values);
        if low > high {
            return Codes { scale: 1.0, offset: 0.0, last };
        }
        // The range of 1e308 and -1e308 is no number: values beyond count as these.
        let (low, high) = (low.clamp(-LARGEST, LARGEST), high.clamp(-LARGEST, LARGEST));
        let scale = ((high - low) / last).max(f64::MIN_POSITIVE);
        let whole = |value: f64| value.fract() == 0.0 && value.abs() < 2f64.powi(53);
        let exact = scale <= 1.0 && finite.all(whole);
        Codes { scale: if exact { 1.0 } else { scale }, offset: low, last }
    }

    fn map(&self) -> (f64, f64) {
        (self.scale, self.offset)
    }

    /// Whether more than half of the finite values that are not their median share its code: as where one
    /// value is far beyond all others.
    fn flatten(&self, values: &[f64]) -> bool {
        let mut finite: Vec<f64> =
            values.iter().copied().filter(|value| value.is_finite()).collect();
        let n = finite.len();
        // Values that differ by less than the smallest step are the same.
        if n == 0 || self.scale <= f64::MIN_POSITIVE {
            return false;
        }
        let (_, &mut median, _) = finite.select_nth_unstable_by(n / 2, f64::total_cmp);
        let code = self.code(median);
        let others = finite.iter().filter(|&&value| value != median);
        let (n_alike, n_others) = others.fold((0, 0), |(alike, all), value| {
            (alike + usize::from(self.code(*value) == code), all + 1)
        });
        2 * n_alike > n_others
    }

    /// Infinite values are the largest and the smallest code.
    fn code(&self, value: f64) -> u16 {
        if value.is_nan() {
            return self.last as u16 + 1;
        }
        ((value - self.offset) / self.scale).round().clamp(0.0, self.last) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    fn picture(values: Vec<f64>) -> Picture {
        Picture {
            planes: vec!["value".to_owned()],
            shape: vec![1, values.len()],
            values,
            stride: [2, 4],
            state: State::Preview,
            label: "preview 1/8".to_owned(),
            progress: 0.125,
            axes: None,
        }
    }

    fn sent(values: &[f64], precision: Precision) -> (Value, Vec<u8>) {
        let message = encode(&picture(values.to_vec()), "scan", 9, precision);
        let len = u32::from_le_bytes(message[4..8].try_into().unwrap()) as usize;
        assert_eq!((&message[..4], (8 + len) % 8), (&b"FFV1"[..], 0));
        (serde_json::from_slice(&message[8..8 + len]).unwrap(), message[8 + len..].to_vec())
    }

    /// What a client makes of the codes.
    fn received(values: &[f64], precision: Precision) -> Vec<f64> {
        let (header, bytes) = sent(values, precision);
        let codes: Vec<u16> = match precision {
            Precision::U8 => bytes.iter().map(|code| (*code).into()).collect(),
            _ => bytes.chunks(2).map(|two| u16::from_le_bytes(two.try_into().unwrap())).collect(),
        };
        let none = if precision == Precision::U8 { 255 } else { 65535 };
        let [scale, offset] = ["scale", "offset"].map(|name| header[name].as_f64().unwrap());
        let value = |code| if code == none { f64::NAN } else { offset + scale * f64::from(code) };
        codes.into_iter().map(value).collect()
    }

    #[test]
    fn the_header_says_everything() {
        let (header, bytes) = sent(&[1.5, f64::NAN, -2.0], Precision::F64);
        let expected = json!({
            "type": "picture", "pane": "scan", "gen": 9, "dtype": "f64", "planes": ["value"],
            "shape": [1, 3], "stride": [2, 4], "state": "preview", "label": "preview 1/8",
            "progress": 0.125, "scale": 1.0, "offset": 0.0, "axes": null,
        });
        assert_eq!(header, expected);
        let values = [1.5, f64::NAN, -2.0].map(f64::to_le_bytes).concat();
        assert_eq!(bytes, values);
        let (_, bytes) = sent(&[0.1, 0.2], Precision::F32);
        assert_eq!(bytes, [0.1_f32, 0.2].map(f32::to_le_bytes).concat());
    }

    #[test]
    fn single_precision_is_not_used_where_it_would_be_seen() {
        let small = [1e6 + 0.01, 1e6 + 0.04, f64::NAN];
        for values in [&small[..], &[16_777_217.0, 0.0], &[1e300, 0.5], &[0.1]] {
            let (header, bytes) = sent(values, Precision::F32);
            assert_eq!(header["dtype"], "f64");
            let expected: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            assert_eq!(bytes, expected);
        }
        let fits = [f64::NAN, f64::INFINITY, 1e6 + 0.1, 7.3, 16_777_216.0];
        for values in [&fits[..], &[], &[f64::NAN], &[0.5]] {
            assert_eq!(sent(values, Precision::F32).0["dtype"], "f32");
        }
    }

    #[test]
    fn counts_are_exact_in_codes() {
        let counts: Vec<f64> = (0..255).map(|i| f64::from(i) - 100.0).collect();
        assert_eq!(received(&counts, Precision::U8), counts);
        let counts: Vec<f64> = [0, 3, 65534, 17].map(f64::from).to_vec();
        assert_eq!(received(&counts, Precision::U16), counts);
        // One more does not fit.
        assert!(received(&[0.0, 1.0, 255.0], Precision::U8)[1] != 1.0);
    }

    #[test]
    fn others_are_as_near_as_the_codes_allow() {
        let values: Vec<f64> =
            (0..1000).map(|i| (f64::from(i) * 0.37).sin() * 1e-3 - 5.0).collect();
        for (precision, steps) in [(Precision::U8, 254.0), (Precision::U16, 65534.0)] {
            for (value, got) in values.iter().zip(received(&values, precision)) {
                assert!((value - got).abs() <= 2e-3 / steps * 0.5001, "{value} {got}");
            }
        }
    }

    #[test]
    fn one_huge_value_does_not_flatten_the_others() {
        let mut values: Vec<f64> = (0..100).map(|i| f64::from(i) * 0.5).collect();
        values[7] = 2f64.powi(32);
        for precision in [Precision::U8, Precision::U16] {
            assert_eq!(sent(&values, precision).0["dtype"], "f32");
        }
        values[7] = 2e4;
        assert_eq!(sent(&values, Precision::U8).0["dtype"], "u16");
        assert_eq!(sent(&values, Precision::U16).0["dtype"], "u16");
        // Most of them are 0, as at the border of a scan.
        let mut sums = vec![0.0; 150];
        sums.extend((1..=100).map(f64::from));
        sums.push(2f64.powi(32));
        for precision in [Precision::U8, Precision::U16] {
            assert_eq!(sent(&sums, precision).0["dtype"], "f32");
        }
        // A scale of 1 by chance.
        let fractions: Vec<f64> = (0..100).map(|i| f64::from(i) * 0.004).chain([254.0]).collect();
        assert_eq!(sent(&fractions, Precision::U8).0["dtype"], "u16");
        // Of many that are the same, nothing is lost.
        assert_eq!(sent(&[[0.5; 9].as_slice(), &[1e9]].concat(), Precision::U8).0["dtype"], "u8");
    }

    #[test]
    fn missing_values_and_odd_ones() {
        let values = [f64::NAN, 1.0, f64::INFINITY, 3.0, f64::NEG_INFINITY];
        for precision in [Precision::U8, Precision::U16] {
            let got = received(&values, precision);
            assert!(got[0].is_nan());
            assert_eq!(
                got[1..4],
                [1.0, if precision == Precision::U8 { 255.0 } else { 65535.0 }, 3.0]
            );
            assert_eq!(got[4], 1.0);
            assert!(received(&[f64::NAN; 3], precision).iter().all(|value| value.is_nan()));
            assert_eq!(received(&[7.25; 3], precision), [7.25; 3]);
            assert_eq!(received(&[], precision), [] as [f64; 0]);
            let huge = received(&[f64::MAX, f64::MIN, 0.0], precision);
            assert!(huge.iter().all(|value| value.is_finite()), "{huge:?}");
            assert!(huge[0] > 4e307 && huge[1] < -4e307 && huge[2].abs() < 1e306, "{huge:?}");
            let tiny = received(&[0.0, 5e-324], precision);
            assert!(tiny.iter().all(|value| value.abs() < 1e-300), "{tiny:?}");
        }
    }
}
