//! Whole arrays from NPY files: masks and regions of interest.

use framefold::core::{FrameIndices, NativeArray, TilingScheme, dispatch_frames, memory};
use framefold::{Error, OpenOptions, Result, open_as};
use std::path::Path;

/// Reads all of the array at `path`.
///
/// # Errors
/// Those of opening and reading an NPY file; `BadFile` if it is cut short.
pub(crate) fn read_npy(path: &Path) -> Result<NativeArray> {
    read(path).map_err(|error| error.with_path(path))
}

fn read(path: &Path) -> Result<NativeArray> {
    let open =
        |sig_dims: usize| open_as("npy", path, &OpenOptions::default().with("sig_dims", sig_dims));
    let dataset = open(1)?;
    let info = dataset.source().info();
    // To a data set, one row is what an array of one axis is, but it does not have two.
    let shape = match info.nav_shape[..] {
        [1] if open(2).is_err() => info.sig_shape.clone(),
        _ => [&info.nav_shape[..], &info.sig_shape[..]].concat(),
    };
    let expected = info.nav_shape.iter().product::<usize>();
    let depth = usize::try_from(info.n_frames).unwrap_or(usize::MAX);
    if depth != expected {
        return Err(Error::bad_file(format!(
            "the array of shape {shape:?} is cut short: {depth} of {expected} rows are there"
        ))
        .with_hint("write the file again"));
    }
    let tiling = TilingScheme::try_new(&info.sig_shape, &info.sig_shape, depth.max(1))?;
    let whole = tiling.slices().first().ok_or_else(|| Error::bug("a tiling without slices"))?;
    let mut reader = dataset.source().reader()?;
    let tile = reader.read(FrameIndices::Run(0..info.n_frames), whole)?;
    let array = dispatch_frames!(tile.frames(), view => {
        let mut values = memory::with_room(view.depth().saturating_mul(view.frame_len()))?;
        for row in view.frames() {
            values.extend_from_slice(row);
        }
        NativeArray::try_new(&shape, values)
    })?;
    reader.verify()?;
    Ok(array)
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold::core::DType;

    #[test]
    fn arrays_of_every_dtype_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        for dtype in DType::all() {
            check(NativeArray::zeros(dtype, &[2, 3, 5]), folder.path());
        }
    }

    #[test]
    fn arrays_keep_their_number_of_axes() {
        let folder = tempfile::tempdir().unwrap();
        for shape in [&[5][..], &[1], &[1, 5], &[5, 1], &[1, 1, 5]] {
            check(NativeArray::zeros(DType::F32, shape), folder.path());
        }
    }

    /// Confirms that the array is read back, with other elements.
    fn check(mut array: NativeArray, folder: &Path) {
        for (i, byte) in array.values_mut().as_bytes_mut().iter_mut().enumerate() {
            *byte = u8::from(i % 3 == 1);
        }
        let path = folder.join("array.npy");
        let mut bytes = Vec::new();
        framefold::io::write_npy(&mut bytes, &array).unwrap();
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(read_npy(&path).unwrap(), array, "{:?}", array.shape());
    }
}
