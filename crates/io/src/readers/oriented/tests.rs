//! Turned sources against cells that are counted one by one.

use super::*;
use crate::{CsrSource, MemoryArray, MemorySource};
use framefold_core::{DType, TilingScheme};
use framefold_testkit::{Values, check_source, random_values};

fn all() -> impl Iterator<Item = Orientation> {
    (0..8).map(|i| Orientation { transpose: i & 1 > 0, flip_y: i & 2 > 0, flip_x: i & 4 > 0 })
}

fn memory(dtype: DType, sig: &[usize]) -> Arc<dyn DataSource> {
    let n = 5 * sig.iter().product::<usize>();
    let values = random_values(dtype, n, Values::Counts, 3);
    let layout = MemoryArray {
        shape: [&[5], sig].concat(),
        offset_bytes: 0,
        stored: dtype.into(),
        sig_dims: sig.len(),
        strides_bytes: None,
    };
    Arc::new(MemorySource::try_new(Arc::new(values.as_bytes().to_vec()), layout).unwrap())
}

fn frames(source: &dyn DataSource) -> Vec<Vec<u8>> {
    let sig = &source.info().sig_shape;
    let scheme = TilingScheme::try_new(sig, sig, 1).unwrap();
    let mut reader = source.reader().unwrap();
    let tile = reader.read(FrameIndices::Run(0..5), &scheme.slices()[0]).unwrap();
    let len = tile.frames().frame_len() * tile.frames().dtype().size();
    tile.frames().as_bytes().chunks(len).map(<[u8]>::to_vec).collect()
}

#[test]
fn turned_frames_are_a_source_with_the_same_cells() {
    let dtypes = [DType::U8, DType::U16, DType::F32, DType::I64, DType::C128];
    for (i, sig) in
        [&[1, 1][..], &[1, 9], &[16, 64], &[33, 17], &[3, 5, 4], &[70, 35]].into_iter().enumerate()
    {
        let dtype = dtypes[i % dtypes.len()];
        for orientation in all() {
            let dense = memory(dtype, sig);
            let sparse = Arc::new(CsrSource::from_frames(dense.clone()).unwrap());
            let plain = frames(dense.as_ref());
            for source in [dense as Arc<dyn DataSource>, sparse] {
                let turned =
                    OrientedSource::try_new(source, orientation, MetadataList::new()).unwrap();
                check_source(&turned).unwrap();
                let (shape, size) = (turned.info().sig_shape.clone(), dtype.size());
                for (found, plain) in frames(&turned).iter().zip(&plain) {
                    for (cell, found) in found.chunks(size).enumerate() {
                        let from = orientation.cell(cell, &shape) * size;
                        assert_eq!(*found, plain[from..from + size], "{sig:?} {orientation}");
                    }
                }
            }
        }
    }
}
