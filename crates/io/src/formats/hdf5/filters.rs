//! The filters that chunks went through.

use crate::codec::{Filter, Inner, Pipeline};
use framefold_core::{Error, Result};
use hdf5_reader::messages::filter_pipeline::FilterDescription;

/// The filters of a data set with elements of `size` bytes.
///
/// # Errors
/// `Unsupported` if one of them is not known.
pub(super) fn pipeline(filters: &[FilterDescription], size: usize) -> Result<Pipeline> {
    let filters: Result<_> = filters.iter().map(|description| filter(description, size)).collect();
    Ok(Pipeline(filters?))
}

/// Which filter that is.
fn filter(description: &FilterDescription, size: usize) -> Result<Filter> {
    let value = |i: usize| {
        description.client_data.get(i).map(|&value| usize::try_from(value).unwrap_or(usize::MAX))
    };
    Ok(match description.id {
        1 => Filter::Deflate,
        2 => Filter::Shuffle { size: value(0).filter(|&size| size > 0).unwrap_or(size) },
        3 => Filter::Fletcher32,
        307 => Filter::Bzip2,
        4..=6 => Filter::Library(description.clone(), size),
        32000 => Filter::Lzf,
        32001 => Filter::Blosc,
        32004 => Filter::Lz4,
        32008 => Filter::Bitshuffle {
            size: value(2).filter(|&size| size > 0).unwrap_or(size),
            block: value(3).unwrap_or(0),
            inner: match value(4).unwrap_or(0) {
                0 => Inner::Nothing,
                2 => Inner::Lz4,
                3 => Inner::Zstd,
                other => {
                    return Err(Error::unsupported(format!(
                        "chunks are compressed by bitshuffle with method {other}, of which 0, 2 \
                         and 3 are known"
                    )));
                }
            },
        },
        32015 => Filter::Zstd,
        id => {
            let name = description.name.as_deref().unwrap_or("no name");
            return Err(Error::unsupported(format!(
                "chunks went through the filter {id} ({name}), which framefold does not know"
            ))
            .with_hint("rewrite the data with gzip: h5repack -f GZIP=4 IN OUT"));
        }
    })
}
