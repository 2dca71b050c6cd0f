//! Pixels that stand for other numbers, as the conventions of netCDF have it: xarray writes them so.

use std::fmt;

/// The attributes of an array that say what its pixels stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Packed {
    scale: Option<f64>,
    offset: Option<f64>,
    fill: Option<f64>,
}

impl Packed {
    /// By the number of each attribute.
    pub(crate) fn of(number: impl Fn(&str) -> Option<f64>) -> Self {
        let scale = number("scale_factor").filter(|&scale| scale != 1.0 && scale.is_finite());
        let offset = number("add_offset").filter(|&offset| offset != 0.0 && offset.is_finite());
        // Alone, it says which pixels were not written, as HDF5 and Zarr do by themselves. Where it is NaN,
        // pixels say that they are none.
        let fill = number("_FillValue").filter(|fill| !fill.is_nan());
        let fill = fill.filter(|_| scale.is_some() || offset.is_some());
        Packed { scale, offset, fill }
    }

    /// A sentence about pixels that are not the numbers that they stand for.
    pub(crate) fn warning(self) -> Option<String> {
        (self != Packed::default()).then(|| {
            format!(
                "the pixels are as they are stored, but the file says that they are packed: {self}; \
                 unpack them by xarray and save that, or apply it to results"
            )
        })
    }

    /// The same for those who look at the details.
    pub(crate) fn details(self) -> impl Iterator<Item = (String, String)> {
        let all =
            [("scale_factor", self.scale), ("add_offset", self.offset), ("_FillValue", self.fill)];
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.to_string())))
    }
}

/// `scale_factor 0.01, add_offset 1`.
impl fmt::Display for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> =
            self.details().map(|(name, value)| format!("{name} {value}")).collect();
        f.write_str(&all.join(", "))
    }
}
