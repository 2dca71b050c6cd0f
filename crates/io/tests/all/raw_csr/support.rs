//! Arrays of sparse frames, written to files or put into memory.

use framefold_core::{
    ByteOrder, DType, DataSource, Dataset, FrameIndices, Result, SigSlice, StoredDType,
    TilingScheme,
};
use framefold_io::{CsrArray, CsrSource, CsrSpec, OpenOptions, Storage, open_as};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Three arrays as numbers, and how they are to be stored.
#[derive(Clone, Debug)]
pub struct Sparse {
    pub sig_shape: Vec<usize>,
    pub pointers: Vec<i64>,
    pub columns: Vec<i64>,
    /// Elements in the byte order of the machine.
    pub values: Vec<u8>,
    pub pointer_dtype: StoredDType,
    pub column_dtype: StoredDType,
    pub value_dtype: StoredDType,
}

pub fn stored(text: &str) -> StoredDType {
    StoredDType::parse(text).unwrap()
}

/// Integers as a file holds them.
pub fn integers(values: &[i64], stored: StoredDType) -> Vec<u8> {
    let element = |n: &i64| {
        let mut bytes = n.to_le_bytes()[..stored.dtype.size()].to_vec();
        if stored.order == ByteOrder::Big {
            bytes.reverse();
        }
        bytes
    };
    values.iter().flat_map(element).collect()
}

/// Native elements as a file holds them.
fn elements(values: &[u8], stored: StoredDType) -> Vec<u8> {
    let mut bytes = values.to_vec();
    let unit = stored.dtype.swap_size();
    if stored.order != ByteOrder::NATIVE {
        bytes.chunks_mut(unit).for_each(<[u8]>::reverse);
    }
    bytes
}

/// How NumPy writes a dtype.
pub fn code(stored: StoredDType) -> String {
    let order = match stored.order {
        ByteOrder::Little => '<',
        ByteOrder::Big => '>',
    };
    format!("{order}{}", stored.dtype.code())
}

impl Sparse {
    /// Three frames of 2 × 3 pixels: two entries, none, and one.
    pub fn small() -> Sparse {
        Sparse {
            sig_shape: vec![2, 3],
            pointers: vec![0, 2, 2, 3],
            columns: vec![1, 4, 5],
            values: integers(&[10, 20, 30], stored("u2")),
            pointer_dtype: stored("<i8"),
            column_dtype: stored("<i4"),
            value_dtype: stored("<u2"),
        }
    }

    pub fn n_frames(&self) -> usize {
        self.pointers.len() - 1
    }

    fn arrays(&self) -> [Vec<u8>; 3] {
        [
            integers(&self.pointers, self.pointer_dtype),
            integers(&self.columns, self.column_dtype),
            elements(&self.values, self.value_dtype),
        ]
    }

    pub fn toml(&self) -> String {
        format!(
            "[params]\nfiletype = \"raw_csr\"\nnav_shape = [{}]\nsig_shape = {:?}\n[raw_csr]\n\
             indptr_file = \"pointers\"\nindptr_dtype = \"{}\"\nindices_file = \"columns\"\n\
             indices_dtype = \"{}\"\ndata_file = \"values\"\ndata_dtype = \"{}\"\n",
            self.n_frames(),
            self.sig_shape,
            code(self.pointer_dtype),
            code(self.column_dtype),
            code(self.value_dtype)
        )
    }

    /// Writes the descriptor and `pointers`, `columns` and `values`; gives the descriptor's path.
    pub fn write(&self, folder: &Path) -> PathBuf {
        for (name, bytes) in ["pointers", "columns", "values"].into_iter().zip(self.arrays()) {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
        let path = folder.join("scan.toml");
        std::fs::write(&path, self.toml()).unwrap();
        path
    }

    /// The same in memory.
    pub fn in_memory(&self) -> Result<CsrSource> {
        let [pointers, columns, values] =
            self.arrays().map(|bytes| Storage::shared(Arc::new(bytes)));
        CsrSource::try_new(CsrSpec {
            format: "memory",
            row_pointers: CsrArray { storage: pointers, stored: self.pointer_dtype },
            columns: CsrArray { storage: columns, stored: self.column_dtype },
            values: CsrArray { storage: values, stored: self.value_dtype },
            descriptor: None,
            sig_shape: self.sig_shape.clone(),
            nav_shape: None,
            metadata: framefold_core::MetadataList::new(),
            details: Vec::new(),
        })
    }

    /// Writes and opens it.
    pub fn open(&self) -> Result<(tempfile::TempDir, Dataset)> {
        let dir = tempfile::tempdir().unwrap();
        let dataset = open_as("raw_csr", self.write(dir.path()), &OpenOptions::default())?;
        Ok((dir, dataset))
    }
}

pub fn whole(sig: &[usize]) -> SigSlice {
    TilingScheme::try_new(sig, sig, 1).unwrap().slices()[0].clone()
}

/// The bytes of each frame.
pub fn read_frames(source: &dyn DataSource) -> Result<Vec<Vec<u8>>> {
    let info = source.info();
    let mut reader = source.reader()?;
    let mut frames = vec![];
    for frame in 0..info.n_frames {
        let tile = reader.read(FrameIndices::Run(frame..frame + 1), &whole(&info.sig_shape))?;
        frames.push(tile.frames().as_bytes().to_vec());
    }
    reader.verify()?;
    Ok(frames)
}

/// The cells of all frames as integers of dtype `u2`.
pub fn read_u16(source: &dyn DataSource) -> Result<Vec<Vec<u16>>> {
    assert_eq!(source.info().dtype.dtype, DType::U16);
    let number = |bytes: &[u8]| u16::from_ne_bytes([bytes[0], bytes[1]]);
    let frames = read_frames(source)?;
    Ok(frames.iter().map(|frame| frame.chunks(2).map(number).collect()).collect())
}
