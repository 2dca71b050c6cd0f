//! Arrays as files: NPY, TIFF, HyperSpy's HDF5 and Zarr, with their axes where the format knows any.

use super::{FileMade, stem, zarr};
use crate::{AxisDescription, Picture};
use framefold::core::NativeArray;
use framefold::io::{
    TiffLabels, TiffStep, Tree, TreeNode, TreeValue, tree_bytes, write_npy, write_tiff,
};
use framefold::{Error, Result};
use std::io::Cursor;

/// The formats of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayFormat {
    /// The array alone. Of vectors, the first axis has y and x.
    Npy,
    /// A page for each plane, with steps and units as ImageJ writes them.
    Tif,
    /// HDF5 as HyperSpy reads it.
    Hspy,
    /// A store of Zarr, version 3, in a ZIP archive: the array `data`, and one for each axis.
    Zarr,
}

impl ArrayFormat {
    /// All of them by name.
    pub const ALL: &[(&str, ArrayFormat)] = &[
        ("npy", ArrayFormat::Npy),
        ("tif", ArrayFormat::Tif),
        ("hspy", ArrayFormat::Hspy),
        ("zarr", ArrayFormat::Zarr),
    ];

    /// The format of that name.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none.
    pub fn by_name(name: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            Error::invalid(format!("'{name}' is no format of arrays"))
                .with_hint(format!("use one of {}", names.join(", ")))
        })
    }
}

/// A picture of a data set, as a file is to have it.
#[derive(Clone, Copy, Debug)]
pub struct Exported<'a> {
    /// The name of the data set.
    pub dataset: &'a str,
    /// What it is of: `scan` or `pattern`.
    pub pane: &'a str,
    /// What it shows, in words.
    pub title: &'a str,
    /// The values.
    pub picture: &'a Picture,
    /// The axes of each plane.
    pub axes: &'a [AxisDescription],
}

impl Exported<'_> {
    /// As a file.
    ///
    /// # Errors
    /// `Limit` if it is too large; `Bug` if axes and picture do not fit each other.
    pub fn file(&self, format: ArrayFormat) -> Result<FileMade> {
        let lens: Vec<usize> = self.axes.iter().map(|axis| axis.size).collect();
        if lens != self.picture.shape {
            let shape = &self.picture.shape;
            return Err(Error::bug(format!("a picture of shape {shape:?} has axes of {lens:?}")));
        }
        let (bytes, ending, media_type) = match format {
            ArrayFormat::Npy => (self.npy()?, "npy", "application/octet-stream"),
            ArrayFormat::Tif => (self.tif()?, "tif", "image/tiff"),
            ArrayFormat::Hspy => (self.hspy()?, "hspy", "application/x-hdf5"),
            ArrayFormat::Zarr => (zarr::store(self)?, "zarr.zip", "application/zip"),
        };
        let name = format!("{}-{}.{ending}", stem(self.dataset), self.pane);
        Ok(FileMade { name, media_type, bytes })
    }

    /// The shape with the planes in front, if there are several.
    pub(super) fn shape(&self) -> Vec<usize> {
        let planes = self.picture.planes.len();
        let planes = (planes > 1).then_some(planes);
        planes.into_iter().chain(self.picture.shape.iter().copied()).collect()
    }

    /// All axes, that of the planes in front: a component each.
    pub(super) fn all_axes(&self) -> Vec<AxisDescription> {
        let planes = AxisDescription {
            name: "component".to_owned(),
            size: self.picture.planes.len(),
            scale: 1.0,
            offset: 0.0,
            unit: String::new(),
        };
        let planes = (planes.size > 1).then_some(planes);
        planes.into_iter().chain(self.axes.iter().cloned()).collect()
    }

    fn npy(&self) -> Result<Vec<u8>> {
        let array = NativeArray::try_new(&self.shape(), self.picture.values.clone())?;
        let mut bytes = Vec::new();
        write_npy(&mut bytes, &array)?;
        Ok(bytes)
    }

    fn tif(&self) -> Result<Vec<u8>> {
        let picture = self.picture;
        let n_planes = picture.planes.len().max(1);
        let len: usize = picture.shape.iter().product();
        // Channels are the last axis.
        let value = |i: usize| picture.values.get((i % n_planes) * len + i / n_planes).copied();
        let values: Vec<f64> = (0..n_planes * len).filter_map(value).collect();
        let shape: Vec<usize> = picture.shape.iter().copied().chain([n_planes]).collect();
        let step = |axis: &AxisDescription| {
            let known = !axis.unit.is_empty() || axis.scale != 1.0 || axis.offset != 0.0;
            let (unit, scale, offset) = (axis.unit.clone(), axis.scale, axis.offset);
            known.then_some(TiffStep { unit, scale, offset })
        };
        let (y, x) = match self.axes {
            [y, x] => (step(y), step(x)),
            [x] => (None, step(x)),
            _ => (None, None),
        };
        let labels = TiffLabels { title: self.title.to_owned(), y, x, ome: false };
        let mut bytes = Cursor::new(Vec::new());
        write_tiff(&mut bytes, &NativeArray::try_new(&shape, values)?, 1, &labels)?;
        Ok(bytes.into_inner())
    }

    /// One signal, as HyperSpy writes version 3.3 of its format.
    fn hspy(&self) -> Result<Vec<u8>> {
        let array = NativeArray::try_new(&self.shape(), self.picture.values.clone())?;
        let bytes = array.values().as_bytes();
        let (shape, dtype) = (self.shape(), array.dtype());
        let mut members =
            vec![("data".to_owned(), TreeNode::Array { attributes: vec![], shape, dtype, bytes })];
        let n_planes = self.picture.planes.len();
        for (i, axis) in self.all_axes().into_iter().enumerate() {
            let size = i64::try_from(axis.size).unwrap_or(i64::MAX);
            let about = vec![
                text("_type", "UniformDataAxis"),
                text("name", &axis.name),
                text("units", &axis.unit),
                ("navigate".to_owned(), TreeValue::Truth(n_planes > 1 && i == 0)),
                ("is_binned".to_owned(), TreeValue::Truth(false)),
                ("size".to_owned(), TreeValue::Integer(size)),
                ("scale".to_owned(), TreeValue::Number(axis.scale)),
                ("offset".to_owned(), TreeValue::Number(axis.offset)),
            ];
            members.push((format!("axis-{i}"), group(about, vec![])));
        }
        let lazy = ["_lazy", "ragged"].map(|name| (name.to_owned(), TreeValue::Truth(false)));
        let general = group(vec![text("title", self.title)], vec![]);
        let signal = group(vec![text("signal_type", "")], vec![]);
        let by = vec![text("dataset", self.dataset), text("quality", &self.picture.label)];
        members.extend([
            ("attributes".to_owned(), group(lazy.to_vec(), vec![])),
            ("learning_results".to_owned(), group(vec![], vec![])),
            (
                "metadata".to_owned(),
                group(vec![], vec![("General".to_owned(), general), ("Signal".to_owned(), signal)]),
            ),
            (
                "original_metadata".to_owned(),
                group(vec![], vec![("framefold".to_owned(), group(by, vec![]))]),
            ),
        ]);
        let signals = group(vec![], vec![(self.pane.to_owned(), group(vec![], members))]);
        tree_bytes(&Tree {
            attributes: vec![text("file_format", "HyperSpy"), text("file_format_version", "3.3")],
            members: vec![("Experiments".to_owned(), signals)],
        })
    }
}

fn group<'a>(
    attributes: Vec<(String, TreeValue)>,
    members: Vec<(String, TreeNode<'a>)>,
) -> TreeNode<'a> {
    TreeNode::Group(Tree { attributes, members })
}

fn text(name: &str, value: &str) -> (String, TreeValue) {
    (name.to_owned(), TreeValue::Text(value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    fn axis(name: &str, size: usize) -> AxisDescription {
        AxisDescription { name: name.into(), size, scale: 0.5, offset: 1.0, unit: "nm".into() }
    }

    fn picture(planes: &[&str], shape: &[usize]) -> Picture {
        let n = planes.len() * shape.iter().product::<usize>();
        Picture {
            planes: planes.iter().map(|plane| (*plane).to_owned()).collect(),
            shape: shape.to_vec(),
            values: (0..n).map(|i| i as f64 / 4.0).collect(),
            stride: [1, 1],
            state: State::Exact,
            label: "exact".into(),
            progress: 1.0,
            axes: None,
        }
    }

    fn file(picture: &Picture, axes: &[AxisDescription], format: &str) -> FileMade {
        let what = Exported { dataset: "a b.mib", pane: "scan", title: "Sum", picture, axes };
        what.file(ArrayFormat::by_name(format).unwrap()).unwrap()
    }

    #[test]
    fn each_format_begins_as_it_should() {
        let picture = picture(&["y", "x"], &[2, 3]);
        let axes = [axis("scan_y", 2), axis("scan_x", 3)];
        for (format, name, start) in [
            ("npy", "a_b-scan.npy", &b"\x93NUMPY"[..]),
            ("tif", "a_b-scan.tif", b"II*\0"),
            ("hspy", "a_b-scan.hspy", b"\x89HDF\r\n\x1a\n"),
            ("zarr", "a_b-scan.zarr.zip", b"PK\x03\x04"),
        ] {
            let file = file(&picture, &axes, format);
            assert_eq!(file.name, name);
            assert!(file.bytes.starts_with(start), "{format}");
        }
        let npy = file(&picture, &axes, "npy").bytes;
        assert!(String::from_utf8_lossy(&npy).contains("'shape': (2, 2, 3), "));
        assert!(npy.ends_with(&(11.0_f64 / 4.0).to_ne_bytes()));
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let picture = picture(&["value"], &[3]);
        let error = ArrayFormat::by_name("exe").unwrap_err();
        assert!(error.to_string().contains("npy, tif, hspy, zarr"), "{error}");
        let axes = [axis("x", 4)];
        let what =
            Exported { dataset: "a", pane: "scan", title: "", picture: &picture, axes: &axes };
        assert!(what.file(ArrayFormat::Npy).is_err());
        assert!(!file(&picture, &[axis("x", 3)], "hspy").bytes.is_empty());
    }
}
