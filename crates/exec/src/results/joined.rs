//! The results of all bands of a frame, put together.

use framefold_core::{Array, BufferDecl, BufferKind, Error, Merger, NativeArray, Result, Shape};

/// The arrays of one UDF, one for each of `decls`.
///
/// # Errors
/// `Bug` if a merger gives arrays that were not declared; whatever it reports itself.
pub(super) fn results(
    mergers: &[Box<dyn Merger>],
    decls: &[BufferDecl],
    shape: &Shape,
) -> Result<Vec<Array>> {
    if let [only] = mergers {
        return checked(only.as_ref(), decls);
    }
    let mut joined: Vec<Joined<'_>> =
        decls.iter().map(|decl| Joined { decl, array: None, filled: 0 }).collect();
    for merger in mergers {
        for (joined, array) in joined.iter_mut().zip(checked(merger.as_ref(), decls)?) {
            joined.add(array.try_native()?, shape)?;
        }
    }
    joined.into_iter().map(Joined::finish).collect()
}

fn checked(merger: &dyn Merger, decls: &[BufferDecl]) -> Result<Vec<Array>> {
    let arrays = merger.results()?;
    if arrays.len() == decls.len() {
        return Ok(arrays);
    }
    Err(Error::bug(format!("{} results for {} result buffers", arrays.len(), decls.len())))
}

/// A buffer of which the first bands are there.
struct Joined<'d> {
    decl: &'d BufferDecl,
    array: Option<NativeArray>,
    /// Bytes.
    filled: usize,
}

impl Joined<'_> {
    /// Puts the next band in its place. Bands are whole rows, and so is what a C-order array of
    /// them begins with.
    fn add(&mut self, band: NativeArray, shape: &Shape) -> Result<()> {
        match self.decl.kind {
            BufferKind::Nav => Err(Error::bug("a nav buffer was computed from bands")),
            // The same for all bands of the same frames.
            BufferKind::Single => {
                self.array = Some(band);
                Ok(())
            }
            BufferKind::Sig => {
                if self.array.is_none() {
                    let shape = self.decl.flat_shape(shape, 0);
                    self.array = Some(NativeArray::try_zeros(band.dtype(), &shape)?);
                }
                let Some(whole) = &mut self.array else {
                    return Err(Error::bug("an array that was made just now is gone"));
                };
                let bytes = band.values().as_bytes();
                let end = self.filled + bytes.len();
                let place = whole.values_mut().as_bytes_mut().get_mut(self.filled..end);
                let place =
                    place.ok_or_else(|| Error::bug("the bands are larger than the frame"))?;
                place.copy_from_slice(bytes);
                self.filled = end;
                Ok(())
            }
        }
    }

    fn finish(self) -> Result<Array> {
        let name = &self.decl.name;
        let array = self.array.ok_or_else(|| Error::bug(format!("'{name}' has no bands")))?;
        if self.decl.kind == BufferKind::Sig && self.filled != array.values().as_bytes().len() {
            return Err(Error::bug(format!("the bands of '{name}' do not make up the frame")));
        }
        Ok(array.into())
    }
}
