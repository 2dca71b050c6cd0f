//! Zarr, versions 2 and 3, and HyperSpy's `.zspy`: folders or archives, with a file for each chunk.
//!
//! | file in the folder of an array | what |
//! |---|---|
//! | `.zarray` (version 2), `zarr.json` (3) | JSON: shape, dtype, shape of chunks, codecs, fill value |
//! | `0.0.0`, `0/0/0` (2), `c/0/0/0` (3) | chunks, each compressed by itself; with shards, several in a file |
//! | `.zattrs` (2) | attributes |
//!
//! Folders around it hold `.zgroup` or `zarr.json`. Endianness: as the dtype or the `bytes` codec
//! says. All of it may be in one zip archive instead, whose members are read where they lie. Known
//! writers: zarr-python, HyperSpy. Limits: of codecs, those in `codecs`. A chunk without a file is made of fill values; that is no damage.

mod about;
mod codecs;
mod meta;
mod place;
mod shard;
mod store;

use crate::access::Storage;
use crate::access::archive::{Archive, MAGIC};
use crate::access::enclosure::Enclosure;
use crate::access::storage::{absolute, note_chunks};
use crate::format::{Format, Prefix, Verdict};
use crate::headers::axes::{check_sig_shape, sig_axes};
use crate::headers::chosen::{self, Named};
use crate::headers::packed::Packed;
use crate::headers::written;
use crate::options;
use crate::options::{Backend, OpenOptions};
use crate::readers::chunked::{ChunkedSource, Geometry, GeometrySpec, Segment};
use framefold_core::{Dataset, Error, Presence, Result, SourceInfo, checked_product};
use meta::{Claim, Meta};
use place::Place;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{ChunkFiles, Folder};

/// The registry's entry.
pub(crate) const FORMAT: Format = Format {
    name: "zarr",
    title: "Zarr",
    extensions: &["zarr", "zspy"],
    options: &[
        options::DS_PATH,
        options::NAV_SHAPE,
        options::SIG_SHAPE,
        options::SIG_DIMS,
        options::SYNC_OFFSET,
        options::ALLOW_EXTERNAL_LINKS,
    ],
    detect: &detect,
    open: &open,
};

/// Folders within folders beyond this are not looked into.
const DEEPEST: usize = 16;
/// Nor is anything after so many of them.
const MOST_FOLDERS: usize = 100_000;
/// Names of arrays that a message lists.
const MOST_NAMED: usize = 8;
/// Those that `info` does.
const MOST_LISTED: usize = 200;
/// The files that say what a folder is.
const DESCRIPTIONS: [&str; 3] = ["zarr.json", ".zarray", ".zgroup"];

fn detect(prefix: &Prefix<'_>) -> Verdict {
    match described(prefix.path) {
        Some(name) => Verdict::Match(format!("the folder holds '{name}'")),
        None if prefix.path.is_dir() => Verdict::No("the folder holds no 'zarr.json'".into()),
        None if DESCRIPTIONS.iter().any(|name| prefix.path.ends_with(name)) => {
            Verdict::Match("it describes a folder".into())
        }
        None if prefix.bytes.starts_with(MAGIC) => match archived(prefix) {
            true => Verdict::Match("it is a zip archive of such a folder".into()),
            false => Verdict::No("it is an archive, but not by its name or first member".into()),
        },
        None => Verdict::No("it is not a folder".into()),
    }
}

/// Whether an archive is Zarr: its name says so, or its first member describes a folder.
fn archived(prefix: &Prefix<'_>) -> bool {
    let name = prefix.path.file_name().map(|n| n.to_string_lossy().to_lowercase());
    let by_name = name.is_some_and(|name| {
        [".zarr.zip", ".zspy.zip", ".zarr", ".zspy"].iter().any(|end| name.ends_with(end))
    });
    let first = || {
        let header = crate::headers::fields::Fields::little(prefix.bytes);
        let len = usize::from(header.u16(26)?);
        prefix.bytes.get(30..)?.get(..len)
    };
    let describes = |name: &[u8]| DESCRIPTIONS.iter().any(|known| name.ends_with(known.as_bytes()));
    by_name || first().is_some_and(describes)
}

fn described(folder: &Path) -> Option<&'static str> {
    let there = |name: &&str| folder.join(name).is_file();
    DESCRIPTIONS.into_iter().find(there).or_else(|| {
        // Folders of version 2 need not be described themselves.
        folder.join("Experiments").is_dir().then_some("Experiments")
    })
}

fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let (root, place) = root(path, options.is_on(&options::ALLOW_EXTERNAL_LINKS))?;
    let (found, besides) = match options.text(&options::DS_PATH) {
        Some(name) => (named(&place, name)?, Besides::default()),
        None => largest(&place)?,
    };
    let meta = found.meta;
    let shape = meta.shape.clone();
    let attributes = about::attributes(&found.folder)?;
    let named = about::signal_axes(&found.folder).or_else(|| last_axes(&attributes, shape.len()));
    let sig_axes = sig_axes(&shape, named.as_deref(), options)?;
    let nav_axes: Vec<usize> = (0..shape.len()).filter(|axis| !sig_axes.contains(axis)).collect();
    let lens = |axes: &[usize]| -> Vec<usize> {
        axes.iter().filter_map(|&axis| shape.get(axis).copied()).collect()
    };
    let sig_shape = lens(&sig_axes);
    check_sig_shape(options, &shape, &sig_shape)?;
    let nav_shape = Some(lens(&nav_axes)).filter(|nav| !nav.is_empty()).unwrap_or_else(|| vec![1]);

    // Chunks are those of an array that has its axes in the order of the chunk.
    let turned = |axes: &[usize]| -> Vec<usize> {
        axes.iter().filter_map(|axis| meta.order.iter().position(|other| other == axis)).collect()
    };
    let order = |lens: &[usize]| -> Vec<usize> {
        meta.order.iter().filter_map(|&axis| lens.get(axis).copied()).collect()
    };
    let geometry = Geometry::try_new(&GeometrySpec {
        shape: order(&shape),
        chunk: order(&meta.chunk),
        nav_axes: turned(&nav_axes),
        sig_axes: turned(&sig_axes),
    })?;
    let mut details = vec![
        ("Zarr version".into(), meta.version.to_string()),
        ("array".into(), format!("/{}", found.name)),
        ("array shape".into(), format!("{shape:?}")),
        ("chunk shape".into(), format!("{:?}", meta.chunk)),
        ("codecs".into(), meta.pipeline.to_string()),
    ];
    if !besides.others.is_empty() {
        details.push(("other arrays".into(), besides.others));
    }
    let n_sig = named.map_or(sig_axes.len(), |named| named.len());
    let uneven = about::uneven(&found.folder, shape.len());
    let (metadata, others) = about::read(&found.folder, &attributes, &nav_axes, &sig_axes, n_sig);
    details.extend(others);
    if let Some(shards) = &meta.shards {
        details.push(("shard shape".into(), format!("{:?}", shards.shape)));
    }
    let packed = Packed::of(|name| attributes.get(name)?.as_f64());
    details.extend(packed.details());
    let info = SourceInfo {
        format: FORMAT.name,
        paths: vec![root.to_path_buf()],
        n_frames: geometry.n_frames(),
        presence: Presence::All,
        base_shape: sig_shape.clone(),
        sig_shape,
        nav_shape,
        dtype: meta.dtype,
        preferred_depth: 1,
        lends: false,
        metadata,
        details,
        warnings: besides.warning.into_iter().chain(packed.warning()).chain(uneven).collect(),
    };
    if matches!(found.folder, Place::Folder(..)) {
        note_chunks(&found.folder.file(meta.file_name()));
    }
    let segment = Segment {
        frames: 0..geometry.n_frames(),
        geometry,
        pipeline: meta.pipeline.clone(),
        fill: meta.fill.clone(),
        store: Box::new(Folder::new(&found.folder, meta)),
    };
    let source = ChunkedSource::try_new(info, vec![segment])?;
    Dataset::try_new(Arc::new(source), options.nav_shape.as_deref(), options.sync_offset)
}

/// What the files of the chunks of the array in a folder are together; `None` if they are more than
/// `most`, or looking at each of them takes too long.
pub(crate) fn chunk_files(folder: &Path, most: u64) -> Option<ChunkFiles> {
    let (_, place) = root(folder, true).ok()?;
    let meta = Meta::read(&place).ok()??;
    Folder::new(&place, meta).chunk_files(most)
}

/// The folder or archive that a path belongs to, and what it stands for.
fn root(path: &Path, anywhere: bool) -> Result<(&Path, Place)> {
    let describes = DESCRIPTIONS.iter().any(|name| path.ends_with(name));
    if path.is_dir() || describes {
        let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        // Chunks are opened by name while the array is read: the current folder may be another one then.
        let there = absolute(folder);
        let around = Enclosure::new(&there, anywhere)?;
        return Ok((folder, Place::Folder(there, around)));
    }
    let archive = Archive::open(Storage::open(path, Backend::Mmap)?)?;
    Ok((path, Place::Archive(Arc::new(archive), String::new())))
}

/// An array of a folder.
struct Found {
    /// From the folder that was opened.
    name: String,
    folder: Place,
    meta: Meta,
}

impl Found {
    fn named(&self) -> Named<'_, usize> {
        (&self.name, &self.meta.shape)
    }
}

/// What there is besides an array that was chosen by its size.
#[derive(Default)]
struct Besides {
    /// The names of other stacks.
    others: String,
    /// That the size did not decide, where others are as large.
    warning: Option<String>,
}

fn named(root: &Place, name: &str) -> Result<Found> {
    let name = name.trim_matches('/');
    let leaves =
        Path::new(name).components().any(|c| !matches!(c, std::path::Component::Normal(_)));
    let folder = root.join(name);
    match if leaves { None } else { Meta::read(&folder)? } {
        Some(meta) => Ok(Found { name: name.to_owned(), folder, meta }),
        None => Err(Error::invalid(format!("there is no array '{name}' in the folder"))),
    }
}

/// An array that cannot be read.
struct Refused {
    name: String,
    claim: Claim,
    error: Error,
}

/// Whether an array is HyperSpy's data, and how many elements it has.
type Rank = (bool, u64);

/// The rank of an array that may hold frames.
fn rank(name: &str, shape: &[usize]) -> Option<Rank> {
    let hyperspy = name.starts_with("Experiments/") && name.ends_with("/data");
    let cells = checked_product(shape).unwrap_or(0);
    (hyperspy || shape.len() >= 3).then_some((hyperspy, cells))
}

/// HyperSpy's data, or the array with the most elements of those with three or more axes. If one that
/// cannot be read would be that, it is an error.
fn largest(root: &Place) -> Result<(Found, Besides)> {
    if let Some(meta) = Meta::read(root)? {
        let found = Found { name: String::new(), folder: root.clone(), meta };
        return Ok((found, Besides::default()));
    }
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    let mut seen = Seen { n_folders: 0, behind_links: root.real().into_iter().collect() };
    walk(root, "", 0, &mut seen, &mut |found| match found {
        Ok(found) => all.push(found),
        Err(error) => refused.push(error),
    });
    let rank_of = |found: &Found| rank(&found.name, &found.meta.shape);
    all.sort_by_key(|found| (std::cmp::Reverse(rank_of(found)), found.name.clone()));
    let best = all.first().and_then(rank_of);
    let could_be_best = |other: &Refused| match &other.claim {
        Claim::NoFrames => false,
        Claim::Shape(shape) => rank(&other.name, shape).is_some_and(|rank| Some(rank) >= best),
        Claim::Unknown => best.is_none_or(|(hyperspy, _)| !hyperspy),
    };
    if let Some(at) = refused.iter().position(could_be_best).filter(|_| !all.is_empty()) {
        let Refused { name, error, .. } = refused.remove(at);
        let hint = error.hint().map(|hint| format!("{hint}; or ")).unwrap_or_default();
        return Err(error.with_hint(format!(
            "{hint}name another array by ds_path, if '{name}' does not hold the frames"
        )));
    }
    if best.is_some() {
        let best = all.remove(0);
        all.retain(|other| rank_of(other).is_some());
        let others: Vec<_> = all.iter().map(Found::named).collect();
        let as_large = all.iter().filter(|other| rank_of(other) == rank_of(&best));
        let as_large: Vec<_> = as_large.map(Found::named).collect();
        let besides = Besides {
            others: chosen::names(&others, MOST_LISTED),
            warning: chosen::undecided("array", best.named(), &as_large),
        };
        return Ok((best, besides));
    }
    let all: Vec<_> = all.iter().map(Found::named).collect();
    let names = chosen::names(&all, MOST_NAMED);
    Err(match (refused.pop(), names.is_empty()) {
        (Some(refused), true) => refused.error,
        (_, true) => Error::unsupported("the folder holds no array of numbers"),
        _ => Error::unsupported("the folder has no array of numbers with three or more axes")
            .with_hint(format!("name another one by ds_path; there are {names}")),
    })
}

/// What was looked at.
struct Seen {
    n_folders: usize,
    /// The folder that was opened, and those that links lead to.
    behind_links: Vec<PathBuf>,
}

impl Seen {
    /// Whether a link in a folder leads to another one that is to be looked at: what is within those that are has a
    /// name there, and what is around the link, or around the folder that was opened, would go round in circles.
    fn is_new(&mut self, link: &Place, folder: &Place) -> bool {
        let (Some(there), Some(here)) = (link.real(), folder.real()) else { return false };
        let is_around = self.behind_links.first().is_some_and(|opened| opened.starts_with(&there));
        if is_around || here.starts_with(&there) {
            return false;
        }
        let is_new = !self.behind_links.iter().any(|seen| there.starts_with(seen));
        if is_new {
            self.behind_links.push(there);
        }
        is_new
    }
}

/// Passes on every array below a folder.
fn walk(
    folder: &Place,
    name: &str,
    depth: usize,
    seen: &mut Seen,
    each: &mut impl FnMut(Result<Found, Refused>),
) {
    for leaf in folder.folders(MOST_FOLDERS + 1) {
        let place = folder.join(&leaf);
        if place.is_link() && !seen.is_new(&place, folder) {
            continue;
        }
        seen.n_folders += 1;
        let name = format!("{name}{}", leaf.display());
        if seen.n_folders > MOST_FOLDERS || depth >= DEEPEST {
            let error = Error::limit(format!(
                "there are more than {MOST_FOLDERS} folders, or more than {DEEPEST} within each other: not \
                 all of them were looked at"
            ));
            return each(Err(Refused { name, claim: Claim::Unknown, error }));
        }
        match Meta::read(&place) {
            Ok(Some(meta)) => each(Ok(Found { name, folder: place, meta })),
            Ok(None) => walk(&place, &format!("{name}/"), depth + 1, seen, each),
            Err(error) => each(Err(Refused { name, claim: Meta::claim(&place), error })),
        }
    }
}

/// The axes of a frame, where framefold wrote how many they are.
fn last_axes(attributes: &Value, n_axes: usize) -> Option<Vec<usize>> {
    let n = usize::try_from(attributes[written::SIG_DIMS].as_u64()?).ok()?;
    Some((n_axes.checked_sub(n)?..n_axes).collect())
}
