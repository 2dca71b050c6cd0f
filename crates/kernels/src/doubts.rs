//! What is odd about parameters that are no error: virtual detectors that look at nothing.

use crate::parameters::{Parameters, Value};
use crate::reductions::masks::geometry::row_spans;
use crate::row::{Detector, ParameterKind};
use framefold_core::{NativeArray, Result};

impl Parameters {
    /// A sentence for each virtual detector that covers no pixel of frames of shape `sig_shape`, or
    /// has its centre outside of them. They are shown before the run.
    ///
    /// # Errors
    /// `Limit` if there is no memory to find out; `Cancelled`.
    pub fn doubts(&self, sig_shape: &[usize]) -> Result<Vec<String>> {
        let mut doubts = Vec::new();
        for (name, value) in &self.given {
            match value {
                Value::Detectors(all) => {
                    for one in all {
                        let written = Value::Detectors(vec![*one]);
                        doubts.extend(doubt(one, &format!("{name} {written}"), sig_shape)?);
                    }
                }
                // Sparse masks are written by programs, which know what they leave out.
                Value::Arrays(all) if *name == "masks" && !self.is_given("starts") => {
                    let arrays = all.iter().flat_map(|given| empty(&given.array, sig_shape));
                    doubts.extend(arrays);
                }
                _ => {}
            }
        }
        doubts.extend(match self.region(sig_shape) {
            Some(region) => doubt(&region, "region around (cy, cx)", sig_shape)?,
            None => None,
        });
        Ok(doubts)
    }

    /// The disk or ring of a reduction that looks at one around a reference point.
    fn region(&self, sig_shape: &[usize]) -> Option<Detector> {
        let known = |name: &str| self.reduction().parameters.iter().find(|p| p.name == name);
        known("r").filter(|r| r.kind == ParameterKind::Radius).and(known("cy"))?;
        let number = |name: &str| {
            self.given.iter().find_map(|(given, value)| match value {
                Value::Number(number) if *given == name => Some(*number),
                _ => None,
            })
        };
        let &[rows, columns] = sig_shape else { return None };
        let centre = [("cy", rows), ("cx", columns)]
            .map(|(name, length)| number(name).unwrap_or((length / 2) as f64));
        Some(Detector {
            centre: Some(centre.into()),
            inner: number("ri").filter(|&ri| ri > 0.0),
            outer: number("r").unwrap_or(f64::INFINITY),
        })
    }
}

/// What is odd about one detector, if anything is.
fn doubt(detector: &Detector, name: &str, sig_shape: &[usize]) -> Result<Option<String>> {
    let &[rows, columns] = sig_shape else { return Ok(None) };
    let middle = ((rows / 2) as f64, (columns / 2) as f64);
    let (cy, cx) = detector.centre.unwrap_or(middle);
    if !(cy.is_finite() && cx.is_finite()) || detector.inner.is_some_and(|ri| ri > detector.outer) {
        return Ok(None); // an error of its own
    }
    let spans = row_spans([rows, columns], [cy, cx], detector.outer, detector.inner)?;
    if spans.iter().flatten().all(|span| span.is_empty()) {
        return Ok(Some(format!("the {name} covers no pixel of frames of shape {sig_shape:?}")));
    }
    // Pixel 0 reaches from -0.5 to 0.5.
    let outside = |at: f64, length: usize| at < -0.5 || at > length as f64 - 0.5;
    Ok((outside(cy, rows) || outside(cx, columns)).then(|| {
        format!("the {name} has its centre ({cy}, {cx}) outside of frames of shape {sig_shape:?}")
    }))
}

/// A sentence for each mask of an array that is 0 everywhere.
fn empty(array: &NativeArray, sig_shape: &[usize]) -> Vec<String> {
    let frame_len = sig_shape.iter().product::<usize>().max(1);
    let (bytes, n_masks) = (array.values().as_bytes(), array.values().len() / frame_len);
    // Arrays that do not fit frames are an error of their own.
    let Some(mask_len) = bytes.len().checked_div(n_masks).filter(|&len| len > 0) else {
        return Vec::new();
    };
    let masks = bytes.chunks_exact(mask_len).enumerate();
    masks
        .filter(|(_, mask)| mask.iter().all(|&byte| byte == 0))
        .map(|(i, _)| match n_masks {
            1 => "the mask covers no pixel: all of its weights are 0".to_owned(),
            n => format!("mask {i} of the {n} in an array covers no pixel: its weights are 0"),
        })
        .collect()
}
