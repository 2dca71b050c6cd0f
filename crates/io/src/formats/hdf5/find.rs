//! Which data set of a file holds the frames: by name, by what writers are known to do, or by size.
//!
//! By size, stacks come first, then images, then single rows. Whatever is reached by links to other
//! files counts; where a link leads nowhere, the data set has to be named.

use super::failures::translate;
use super::library::{COPY, Library, plain};
use super::values::{self, attribute_text};
use super::{delmic, dm5, links, nion, velox};
use crate::headers::chosen::{self, Named};
use crate::options::OpenOptions;
use crate::options::{DS_PATH, SIG_DIMS};
use framefold_core::{Error, ErrorKind, Result, checked_product};
use hdf5_reader::group::Group;
use hdf5_reader::{Attribute, Dataset, Storage};
use std::collections::{BTreeMap, HashSet};

/// Groups within groups beyond this are not looked into.
const DEEPEST: usize = 32;
/// Nor is anything after so many objects.
const MOST_OBJECTS: usize = 100_000;
/// Links to other files that are followed in search of frames.
const MOST_FOLLOWED: usize = 1000;
/// Data sets whose frames follow each other; each is looked for among the names of all.
const MOST_PARTS: usize = 50_000;
/// Names of data sets that a message lists.
const MOST_NAMED: usize = 8;
/// Those that `info` does.
const MOST_LISTED: usize = 200;

/// What was chosen.
#[derive(Debug, PartialEq)]
pub(super) struct Found {
    /// Who wrote it, as far as that is known.
    pub(super) dialect: &'static str,
    /// The data sets whose frames follow each other; a number for each says in which place, where
    /// some may be missing.
    pub(super) parts: Vec<(String, Option<u64>)>,
    /// The axes of a frame, where it is not the last two.
    pub(super) sig_axes: Option<Vec<usize>>,
    /// What else there is that could hold frames, where it was chosen by its size.
    pub(super) others: Option<String>,
    /// That its size did not decide, where others are as large.
    pub(super) warning: Option<String>,
}

impl Found {
    fn one(dialect: &'static str, path: String) -> Self {
        Found { dialect, parts: vec![(path, None)], sig_axes: None, others: None, warning: None }
    }
}

/// Finds the frames; `ds_path` is the data set, or the group with parts of one, that the user wants.
///
/// # Errors
/// `InvalidArgument` or `Unsupported` that lists what there is; `BadFile` if a link leads nowhere.
pub(super) fn find(library: &Library, options: &OpenOptions) -> Result<Found> {
    let wanted = options.text(&DS_PATH).map(plain);
    let wanted = wanted.as_deref();
    if wanted.is_none_or(|path| path == FRAMES)
        && let Some(found) = framefold(library)
    {
        return Ok(found);
    }
    if let Some(path) = wanted {
        return match library.group(path).map(|group| numbered(&group, path)).transpose()? {
            Some(Some(found)) => Ok(found),
            Some(None) => {
                let mut all = Listing::default();
                if let Some(group) = library.group(path) {
                    let within = format!("{path}/");
                    all.walk(library, &group, within.trim_start_matches('/'), 0)?;
                    all.is_whole()?;
                }
                if let Some(frames) = all.frame_by_frame()? {
                    return Ok(frames);
                }
                let error = Error::invalid(format!("'/{path}' is a group, not a data set"));
                Err(match all.names(MOST_NAMED) {
                    names if names.is_empty() => listing_names(library, error)?,
                    names => error.with_hint(format!("name one of its data sets: {names}")),
                })
            }
            None => {
                library.dataset(path).or_else(|error| Err(listing_names(library, error)?))?;
                Ok(with_axes(library, Found::one("plain", path.to_owned())))
            }
        };
    }
    if let Some(found) = hyperspy(library)? {
        return listing_others(library, found);
    }
    if let Some(found) = acquisitions(library)? {
        return Ok(found);
    }
    if let Some(group) = library.group("entry/data")
        && let Some(found) = numbered(&group, "entry/data")?
    {
        return Ok(found);
    }
    let default = nexus(library)?;
    if let Some((path, 3..)) = &default {
        return listing_others(library, Found::one("NeXus", path.clone()));
    }
    let all = Listing::of(library)?;
    all.is_whole()?;
    let fewest = if options.count(&SIG_DIMS) == Some(1) { 1 } else { 2 };
    let by_size = |n_axes| all.by_size(n_axes, |path| dialect(library, path));
    let chosen = if let Some(stack) = by_size(3) {
        stack
    } else if let Some(frames) = all.frame_by_frame()? {
        frames
    } else if let Some((path, _)) = default {
        Found::one("NeXus", path)
    } else if let Some(found) = by_size(fewest) {
        found
    } else {
        return Err(all.leads_nowhere().unwrap_or_else(|| all.nothing_fits()));
    };
    if chosen.dialect != "NeXus"
        && let Some(error) = all.leads_nowhere()
    {
        return Err(error);
    }
    let others = all.others(&chosen);
    Ok(with_axes(library, Found { others, ..chosen }))
}

/// Adds what else there is in the file.
fn listing_others(library: &Library, found: Found) -> Result<Found> {
    let others = Listing::of(library)?.others(&found);
    Ok(Found { others, ..found })
}

/// The error that there is no data set of a name, with the names that there are.
fn listing_names(library: &Library, error: Error) -> Result<Error> {
    if error.hint().is_some() {
        return Ok(error);
    }
    let names = Listing::of(library)?.names(MOST_NAMED);
    Ok(if names.is_empty() { error } else { error.with_hint(format!("there are {names}")) })
}

/// Adds the axes of the frame, where the path tells that they are not the last ones.
fn with_axes(library: &Library, mut found: Found) -> Found {
    let Some((path, _)) = found.parts.first() else { return found };
    let axes = |path: &str| library.main.file.dataset(path).map_or(0, |dataset| dataset.ndim());
    if velox::is_image(library, path) && axes(path) == 3 {
        found.dialect = "Velox";
        found.sig_axes = Some(vec![0, 1]);
    } else if let Some(sig_axis) = velox::energy_axis(library, path) {
        found.dialect = "Velox";
        found.sig_axes = Some(vec![sig_axis]);
    } else if let Some(image) = dm5::Image::at(library, path) {
        found.dialect = "DM5";
        found.sig_axes = image.sig_axes(axes(path));
    } else if path.starts_with("Experiments/") {
        let signal = path.strip_suffix("/data").and_then(|group| library.group(group));
        found.sig_axes = signal.and_then(|group| signal_axes(&group));
    } else if let Some(item) = nion::Item::at(library, path) {
        found.dialect = "Nion Swift";
        found.sig_axes = item.sig_axes(axes(path));
    } else if delmic::is_at(library, path) {
        let dataset = library.dataset(path).ok();
        found.dialect = delmic::NAME;
        found.sig_axes = dataset.and_then(|(dataset, _)| delmic::sig_axes(dataset.shape()));
    }
    found
}

fn dialect(library: &Library, path: &str) -> &'static str {
    let group_type = |path: &str| {
        let group = library.group(path)?;
        group.attribute("emd_group_type").ok()
    };
    let parents = path.match_indices('/').map(|(at, _)| &path[..at]);
    if path.starts_with("4DSTEM") || path.contains("datacube") {
        "py4DSTEM"
    } else if parents.clone().any(|parent| group_type(parent).is_some()) {
        "EMD"
    } else {
        "plain"
    }
}

/// The data set of framefold's files.
const FRAMES: &str = "data";

/// framefold: `/data`, in a file that says how many of its last axes are those of a frame.
fn framefold(library: &Library) -> Option<Found> {
    let root = library.main.file.root_group().ok()?;
    let sig_dims = root.attribute("sig_dims").ok()?.read_as_f64().ok()?;
    let n_axes = root.dataset(FRAMES).ok()?.ndim();
    let first = (0..n_axes).find(|&axis| (n_axes - axis) as f64 == sig_dims)?;
    let found = Found::one("framefold", FRAMES.into());
    Some(Found { sig_axes: Some((first..n_axes).collect()), ..found })
}

/// HyperSpy: the largest `Experiments/*/data`, with axes that know what they are.
fn hyperspy(library: &Library) -> Result<Option<Found>> {
    let Some(experiments) = library.group("Experiments") else { return Ok(None) };
    let mut all = Listing::default();
    for group in experiments.groups().map_err(|error| translate(&error))? {
        let Ok(dataset) = group.dataset("data") else { continue };
        let file = file_of(group.storage());
        all.add(file, &dataset, format!("Experiments/{}/data", group.name()), false);
    }
    let empty = || {
        let entry = all.found.iter().find(|entry| entry.numeric)?;
        Some(Found::one("HyperSpy", entry.path.clone()))
    };
    let found = all.by_size(0, |_| "HyperSpy").or_else(empty);
    Ok(found.map(|found| with_axes(library, found)))
}

/// Delmic: the acquisition with the most frames, or those of its positions; never the preview.
///
/// # Errors
/// `BadFile` if an image cannot be reached.
fn acquisitions(library: &Library) -> Result<Option<Found>> {
    let mut all = Listing::default();
    for path in delmic::images(library) {
        match library.dataset(&path) {
            Ok((dataset, owner)) => all.add(file_of(owner.file.storage()), &dataset, path, false),
            // An acquisition without an image.
            Err(error) if error.kind() == ErrorKind::InvalidArgument => {}
            Err(error) => return Err(error),
        }
    }
    let candidates = all.found.iter().filter(|entry| entry.is_candidate() && entry.shape.len() > 2);
    let images: Vec<_> = candidates.map(|e| (e.path.as_str(), e.shape.as_slice())).collect();
    let Some(paths) = delmic::choose(library, &images) else { return Ok(None) };
    if let Ok((preview, owner)) = library.dataset(delmic::PREVIEW) {
        let file = file_of(owner.file.storage());
        all.add(file, &preview, delmic::PREVIEW.to_owned(), false);
    }
    let parts = paths.into_iter().map(|path| (path, None)).collect();
    let found = Found { dialect: delmic::NAME, parts, sig_axes: None, others: None, warning: None };
    let found = if found.parts.len() == 1 { with_axes(library, found) } else { found };
    Ok(Some(Found { others: all.others(&found), ..found }))
}

/// The axes that HyperSpy does not navigate.
fn signal_axes(group: &Group) -> Option<Vec<usize>> {
    let mut axes = vec![];
    for number in 0.. {
        let Ok(axis) = group.group(&format!("axis-{number}")) else { break };
        let navigate = axis.attribute("navigate").ok()?;
        if navigate.raw_data.iter().all(|byte| *byte == 0) {
            axes.push(number);
        }
    }
    (!axes.is_empty()).then_some(axes)
}

/// DECTRIS: links `data_000001` and so on, most often to other files.
///
/// # Errors
/// `BadFile` if the links are damaged.
fn numbered(group: &Group, path: &str) -> Result<Option<Found>> {
    let mut names: Vec<String> = vec![];
    // Links that lead nowhere are not listed; these messages have them all.
    if let Ok((_, datasets)) = group.member_names() {
        names.extend(datasets);
    }
    names.extend(links::external(group)?);
    let mut numbered: Vec<(u64, String)> = names
        .into_iter()
        .filter_map(|name| Some((name.strip_prefix("data_")?.parse().ok()?, name)))
        .collect();
    numbered.sort();
    numbered.dedup();
    if numbered.len() > MOST_PARTS {
        return Err(Error::limit(format!(
            "the frames are in {} data sets, and more than {MOST_PARTS} are not opened together",
            numbered.len()
        ))
        .with_hint("name one of them by ds_path"));
    }
    let parts: Vec<_> =
        numbered.into_iter().map(|(n, name)| (format!("{path}/{name}"), Some(n))).collect();
    Ok((!parts.is_empty()).then_some(Found {
        dialect: "DECTRIS",
        parts,
        sig_axes: None,
        others: None,
        warning: None,
    }))
}

/// NeXus: `default` leads to an entry, `default` there to the data, `signal` there to the array,
/// whose number of axes is returned, too.
///
/// # Errors
/// `BadFile` if the file names the array, but it cannot be reached.
fn nexus(library: &Library) -> Result<Option<(String, usize)>> {
    let text = |attribute: Attribute| values::name(&attribute);
    let place = || {
        let root = library.main.file.root_group().ok()?;
        let entry = root.attribute("default").ok().and_then(text)?;
        let group = root.group(&entry).ok()?;
        let data = group.attribute("default").ok().and_then(text)?;
        let data_group = group.group(&data).ok()?;
        let signal = data_group.attribute("signal").ok().and_then(text);
        let says = signal.is_some();
        let signal = signal.unwrap_or_else(|| "data".into());
        Some((format!("{entry}/{data}/{signal}"), says))
    };
    let Some((path, says)) = place() else { return Ok(None) };
    match library.dataset(&path) {
        Ok((dataset, _)) => Ok(Some((path, dataset.ndim()))),
        Err(_) if !says => Ok(None),
        Err(error) => Err(Error::bad_file(format!(
            "the file says that its data are '{path}', but {}",
            error.message()
        ))
        .with_hint(format!("{}; or name a data set by ds_path", error.hint().unwrap_or(COPY)))),
    }
}

/// All data sets of a file, and those of other files that it links to.
#[derive(Default)]
struct Listing {
    /// Groups, by the file they are in and their address.
    seen: HashSet<(usize, u64)>,
    found: Vec<Entry>,
    n_followed: usize,
    /// Links that lead nowhere: what is wrong with each, and what helps.
    nowhere: Vec<(String, Option<String>)>,
    /// Not all was looked at.
    cut: bool,
}

struct Entry {
    path: String,
    /// The file it is in and its address there: several names may lead to it.
    place: (usize, u64),
    cells: u64,
    shape: Vec<u64>,
    numeric: bool,
    /// It describes a sample, and is no candidate.
    of_sample: bool,
}

impl Listing {
    fn of(library: &Library) -> Result<Self> {
        let mut all = Listing::default();
        let root = library.main.file.root_group().map_err(|error| translate(&error))?;
        all.walk(library, &root, "", 0)?;
        Ok(all)
    }

    fn walk(&mut self, library: &Library, group: &Group, path: &str, depth: usize) -> Result<()> {
        let file = file_of(group.storage());
        if !self.seen.insert((file, group.address())) {
            return Ok(());
        }
        if depth > DEEPEST {
            self.cut = true;
            return Ok(());
        }
        let of_sample = attribute_text(group, "NX_class").as_deref() == Some("NXsample");
        let (groups, datasets) = group.members().map_err(|error| translate(&error))?;
        for dataset in datasets {
            self.add(file, &dataset, format!("{path}{}", dataset.name()), of_sample);
        }
        for group in groups {
            if self.seen.len() >= MOST_OBJECTS {
                self.cut = true;
                break;
            }
            self.walk(library, &group, &format!("{path}{}/", group.name()), depth + 1)?;
        }
        for name in links::external(group)? {
            self.n_followed += 1;
            if self.n_followed > MOST_FOLLOWED {
                let message = format!("more than {MOST_FOLLOWED} links lead to other files");
                self.nowhere.push((message, None));
                break;
            }
            let path = format!("{path}{name}");
            match library.dataset(&path) {
                Ok((dataset, owner)) => {
                    self.add(file_of(owner.file.storage()), &dataset, path, of_sample);
                }
                Err(error) => match library.group_behind(&path) {
                    Some(group) if self.seen.len() < MOST_OBJECTS => {
                        self.walk(library, &group, &format!("{path}/"), depth + 1)?;
                    }
                    Some(_) => self.cut = true,
                    None => {
                        let hint = error.hint().map(str::to_owned);
                        self.nowhere.push((error.message().to_owned(), hint));
                    }
                },
            }
        }
        Ok(())
    }

    fn add(&mut self, file: usize, dataset: &Dataset, path: String, of_sample: bool) {
        if self.found.len() < MOST_OBJECTS {
            self.found.push(Entry { of_sample, ..Entry::new(file, dataset, path) });
        } else {
            self.cut = true;
        }
    }

    /// Confirms that all was looked at: what was not may be the frames, or some of them.
    ///
    /// # Errors
    /// `Limit` if not.
    fn is_whole(&self) -> Result<()> {
        if !self.cut {
            return Ok(());
        }
        Err(Error::limit(format!(
            "there are more than {MOST_OBJECTS} groups or data sets, or more than {DEEPEST} groups within \
             each other: not all of them were looked at"
        ))
        .with_hint("name a data set by ds_path"))
    }

    /// Those with the most elements, of those with at least so many axes, in the order of their
    /// names: those in a group stand where the group does.
    fn largest(&self, n_axes: usize) -> Vec<&Entry> {
        let fits = |entry: &&Entry| entry.shape.len() >= n_axes && entry.is_candidate();
        let most = self.found.iter().filter(fits).map(|entry| entry.cells).max();
        let as_large = |entry: &&Entry| Some(entry.cells) == most;
        let mut largest: Vec<&Entry> = self.found.iter().filter(fits).filter(as_large).collect();
        largest.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
        largest
    }

    /// The first of the largest.
    fn by_size(&self, n_axes: usize, dialect: impl Fn(&str) -> &'static str) -> Option<Found> {
        let largest = self.largest(n_axes);
        let (first, rest) = largest.split_first()?;
        let as_large = rest.iter().filter(|entry| entry.place != first.place);
        let as_large: Vec<_> = as_large.map(|entry| entry.named()).collect();
        let warning = chosen::undecided("data set", first.named(), &as_large);
        Some(Found { warning, ..Found::one(dialect(&first.path), first.path.clone()) })
    }

    /// The error that what a link leads to may be the frames.
    fn leads_nowhere(&self) -> Option<Error> {
        let (message, hint) = self.nowhere.first()?;
        let more = match self.nowhere.len() {
            1 => String::new(),
            n => format!(" (and {} more links)", n - 1),
        };
        let names = self.names(MOST_NAMED);
        let names = if names.is_empty() { names } else { format!("; there are {names}") };
        let hint = hint.as_deref().unwrap_or(COPY);
        Some(
            Error::bad_file(format!("{message}{more}; these may be the frames"))
                .with_hint(format!("{hint}; or name a data set by ds_path{names}")),
        )
    }

    /// TopSpin: a group with a group for each frame, `0/Data`, `1/Data` and so on; the one with the
    /// most frames.
    ///
    /// # Errors
    /// `Unsupported` if they are not of one shape.
    fn frame_by_frame(&self) -> Result<Option<Found>> {
        let mut groups: BTreeMap<&str, Vec<(u64, &Entry)>> = BTreeMap::new();
        for entry in self.found.iter().filter(|entry| entry.numeric && entry.shape.len() == 2) {
            let Some((group, "Data")) = entry.path.rsplit_once('/') else { continue };
            let Some((group, number)) = group.rsplit_once('/') else { continue };
            if let Ok(number) = number.parse() {
                groups.entry(group).or_default().push((number, entry));
            }
        }
        let mut frames = groups.into_values().max_by_key(Vec::len).unwrap_or_default();
        frames.sort_unstable_by_key(|(number, _)| *number);
        let [(_, first), _, ..] = frames.as_slice() else { return Ok(None) };
        if let Some((_, other)) = frames.iter().find(|(_, entry)| entry.shape != first.shape) {
            return Err(Error::unsupported(format!(
                "frames have different shapes: '{}' {:?}, '{}' {:?}",
                first.path, first.shape, other.path, other.shape
            ))
            .with_hint("name one of them by ds_path"));
        }
        let parts = frames.iter().map(|(_, entry)| (entry.path.clone(), None)).collect();
        Ok(Some(Found { dialect: "TopSpin", parts, sig_axes: None, others: None, warning: None }))
    }

    /// What could hold frames besides these: stacks, and images if one of those was chosen.
    fn others(mut self, chosen: &Found) -> Option<String> {
        let paths: HashSet<&str> = chosen.parts.iter().map(|(path, _)| path.as_str()).collect();
        let is_chosen = |entry: &Entry| paths.contains(entry.path.as_str());
        let n_axes = self.found.iter().find(|entry| is_chosen(entry)).map(|e| e.shape.len());
        let fewest = if chosen.parts.len() > 1 { 3 } else { n_axes.unwrap_or(3).min(3) };
        self.found.retain(|entry| {
            entry.shape.len() >= fewest && entry.is_candidate() && !is_chosen(entry)
        });
        Some(self.names(MOST_LISTED)).filter(|names| !names.is_empty())
    }

    /// Arrays of numbers and their shapes, the largest first.
    fn names(&self, most: usize) -> String {
        let arrays = self.found.iter().filter(|entry| entry.numeric && !entry.shape.is_empty());
        let mut arrays: Vec<&Entry> = arrays.collect();
        arrays.sort_by_key(|entry| std::cmp::Reverse(entry.cells));
        let arrays: Vec<_> = arrays.into_iter().map(Entry::named).collect();
        chosen::names(&arrays, most)
    }

    fn nothing_fits(&self) -> Error {
        if let Some(row) = self.largest(1).first() {
            return Error::unsupported(format!(
                "the largest data set, '{}', has one axis",
                row.path
            ))
            .with_hint(format!(
                "use sig_dims=1, or name another one by ds_path; there are {}",
                self.names(MOST_NAMED)
            ));
        }
        let names = self.names(MOST_NAMED);
        let error = Error::unsupported("the file has no data set of numbers that could be frames");
        if names.is_empty() {
            return error.with_hint("use a file that holds frames");
        }
        error.with_hint(format!("name one by ds_path; there are {names}"))
    }
}

/// What tells an open file from others.
fn file_of(storage: &dyn Storage) -> usize {
    std::ptr::from_ref(storage).addr()
}

impl Entry {
    fn new(file: usize, dataset: &Dataset, path: String) -> Self {
        let shape = dataset.shape().to_vec();
        let lens: Vec<usize> =
            shape.iter().map(|&len| usize::try_from(len).unwrap_or(usize::MAX)).collect();
        let cells = checked_product(&lens).unwrap_or(0);
        let numeric = super::dtype::is_numeric(dataset);
        let place = (file, dataset.address());
        Entry { path, place, cells, shape, numeric, of_sample: false }
    }

    fn named(&self) -> Named<'_, u64> {
        (&self.path, &self.shape)
    }

    /// Whether it may hold frames.
    fn is_candidate(&self) -> bool {
        self.numeric && self.cells > 0 && !self.of_sample
    }
}
