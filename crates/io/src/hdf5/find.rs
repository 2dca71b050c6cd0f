//! Which data set of a file holds the frames: by name, by what writers are known to do, or by size.

use super::library::{Library, translate};
use super::{links, nion};
use framefold_core::{Error, Result, checked_product};
use hdf5_reader::group::Group;
use hdf5_reader::{Attribute, Dataset};
use std::collections::{BTreeMap, HashSet};

/// Groups within groups beyond this are not looked into.
const DEEPEST: usize = 32;
/// Nor is anything after so many objects.
const MOST_OBJECTS: usize = 100_000;
/// Names of data sets that a message lists.
const MOST_NAMED: usize = 8;

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
}

impl Found {
    fn one(dialect: &'static str, path: String) -> Self {
        Found { dialect, parts: vec![(path, None)], sig_axes: None, others: None }
    }
}

/// Finds the frames. `named` is the data set, or the group with parts of one, that the user wants.
///
/// # Errors
/// `InvalidArgument` or `Unsupported` that lists what there is.
pub(super) fn find(library: &Library, named: Option<&str>) -> Result<Found> {
    if let Some(path) = named {
        let path = path.trim_matches('/');
        return match library.group(path).map(|group| numbered(&group, path)).transpose()? {
            Some(Some(found)) => Ok(found),
            Some(None) => {
                let mut all = Listing::default();
                if let Some(group) = library.group(path) {
                    all.walk(&group, &format!("{path}/"), 0)?;
                }
                all.frame_by_frame()
                    .map_or_else(|| Ok(with_axes(library, Found::one("plain", path.into()))), Ok)
            }
            None => {
                library.dataset(path).or_else(|error| Err(listing_names(library, error)?))?;
                Ok(with_axes(library, Found::one("plain", path.to_owned())))
            }
        };
    }
    if let Some(found) = framefold(library) {
        return Ok(found);
    }
    if let Some(found) = hyperspy(library)? {
        return Ok(found);
    }
    if let Some(group) = library.group("entry/data")
        && let Some(found) = numbered(&group, "entry/data")?
    {
        return Ok(found);
    }
    if let Some(path) = nexus(library) {
        return Ok(Found::one("NeXus", path));
    }
    let mut all = Listing::default();
    let root = library.main.file.root_group().map_err(|error| translate(&error))?;
    all.walk(&root, "", 0)?;
    let Some(largest) = all.largest() else {
        return all.frame_by_frame().ok_or_else(|| all.nothing_fits());
    };
    let dialect = dialect(library, &largest);
    let others = all.others(&largest);
    Ok(Found { others, ..with_axes(library, Found::one(dialect, largest)) })
}

/// The error that there is no data set of a name, with the names that there are.
fn listing_names(library: &Library, error: Error) -> Result<Error> {
    if error.hint().is_some() {
        return Ok(error);
    }
    let mut all = Listing::default();
    let root = library.main.file.root_group().map_err(|error| translate(&error))?;
    all.walk(&root, "", 0)?;
    let names = all.names();
    Ok(if names.is_empty() { error } else { error.with_hint(format!("there are {names}")) })
}

/// Adds the axes of the frame, where the path tells that they are not the last ones.
fn with_axes(library: &Library, mut found: Found) -> Found {
    let Some((path, _)) = found.parts.first() else { return found };
    let axes = |path: &str| library.main.file.dataset(path).map_or(0, |dataset| dataset.ndim());
    if path.starts_with("Data/Image/") && axes(path) == 3 {
        found.dialect = "Velox";
        found.sig_axes = Some(vec![0, 1]);
    } else if path.starts_with("Experiments/") {
        let signal = path.strip_suffix("/data").and_then(|group| library.group(group));
        found.sig_axes = signal.and_then(|group| signal_axes(&group));
    } else if let Some(item) = nion::Item::at(library, path) {
        found.dialect = "Nion Swift";
        found.sig_axes = item.sig_axes(axes(path));
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

/// framefold: `/data`, in a file that says how many of its last axes are those of a frame.
fn framefold(library: &Library) -> Option<Found> {
    let root = library.main.file.root_group().ok()?;
    let sig_dims = root.attribute("sig_dims").ok()?.read_as_f64().ok()?;
    let n_axes = root.dataset("data").ok()?.ndim();
    let first = (0..n_axes).find(|&axis| (n_axes - axis) as f64 == sig_dims)?;
    let found = Found::one("framefold", "data".into());
    Some(Found { sig_axes: Some((first..n_axes).collect()), ..found })
}

/// HyperSpy: the largest `Experiments/*/data`, with axes that know what they are.
fn hyperspy(library: &Library) -> Result<Option<Found>> {
    let Some(experiments) = library.group("Experiments") else { return Ok(None) };
    let mut best: Option<(u64, String)> = None;
    for group in experiments.groups().map_err(|error| translate(&error))? {
        let Ok(dataset) = group.dataset("data") else { continue };
        let cells = dataset.num_elements().unwrap_or(0);
        if super::dtype::is_numeric(&dataset) && best.as_ref().is_none_or(|best| cells > best.0) {
            best = Some((cells, format!("Experiments/{}/data", group.name())));
        }
    }
    Ok(best.map(|(_, path)| with_axes(library, Found::one("HyperSpy", path))))
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
    let parts: Vec<_> =
        numbered.into_iter().map(|(n, name)| (format!("{path}/{name}"), Some(n))).collect();
    Ok((!parts.is_empty()).then_some(Found {
        dialect: "DECTRIS",
        parts,
        sig_axes: None,
        others: None,
    }))
}

/// NeXus: `default` leads to an entry, `default` there to the data, `signal` there to the array.
fn nexus(library: &Library) -> Option<String> {
    let text = |attribute: Attribute| attribute.read_string().ok();
    let root = library.main.file.root_group().ok()?;
    let entry = root.attribute("default").ok().and_then(text)?;
    let group = root.group(&entry).ok()?;
    let data = group.attribute("default").ok().and_then(text)?;
    let data_group = group.group(&data).ok()?;
    let signal = data_group.attribute("signal").ok().and_then(text);
    let signal = signal.unwrap_or_else(|| "data".into());
    let dataset = data_group.dataset(&signal).ok()?;
    (dataset.ndim() >= 3).then(|| format!("{entry}/{data}/{signal}"))
}

/// All data sets of a file, links to other files aside.
#[derive(Default)]
struct Listing {
    seen: HashSet<u64>,
    found: Vec<Entry>,
}

struct Entry {
    path: String,
    cells: u64,
    shape: Vec<u64>,
    numeric: bool,
}

impl Listing {
    fn walk(&mut self, group: &Group, path: &str, depth: usize) -> Result<()> {
        if !self.seen.insert(group.address()) || depth > DEEPEST {
            return Ok(());
        }
        let (groups, datasets) = group.members().map_err(|error| translate(&error))?;
        for dataset in datasets {
            if self.found.len() < MOST_OBJECTS {
                self.found.push(Entry::new(&dataset, format!("{path}{}", dataset.name())));
            }
        }
        for group in groups {
            if self.seen.len() < MOST_OBJECTS {
                self.walk(&group, &format!("{path}{}/", group.name()), depth + 1)?;
            }
        }
        Ok(())
    }

    /// The one with the most elements, of those with at least three axes.
    fn largest(&self) -> Option<String> {
        let stacks = self.found.iter().filter(|e| e.numeric && e.shape.len() >= 3 && e.cells > 0);
        // The first one, where several are as large.
        let largest = stacks.rev().max_by_key(|entry| entry.cells);
        largest.map(|entry| entry.path.clone())
    }

    /// TopSpin: a group with a group for each frame, `0/Data`, `1/Data` and so on; the one with the
    /// most frames.
    fn frame_by_frame(&self) -> Option<Found> {
        let mut groups: BTreeMap<&str, Vec<(u64, &Entry)>> = BTreeMap::new();
        for entry in self.found.iter().filter(|entry| entry.numeric && entry.shape.len() == 2) {
            let Some((group, "Data")) = entry.path.rsplit_once('/') else { continue };
            let Some((group, number)) = group.rsplit_once('/') else { continue };
            if let Ok(number) = number.parse() {
                groups.entry(group).or_default().push((number, entry));
            }
        }
        let mut frames = groups.into_values().max_by_key(Vec::len)?;
        frames.sort_unstable_by_key(|(number, _)| *number);
        let shape = &frames.first()?.1.shape;
        if frames.len() < 2 || frames.iter().any(|(_, entry)| entry.shape != *shape) {
            return None;
        }
        let parts = frames.iter().map(|(_, entry)| (entry.path.clone(), None)).collect();
        Some(Found { dialect: "TopSpin", parts, sig_axes: None, others: None })
    }

    /// What could hold frames besides this one.
    fn others(mut self, chosen: &str) -> Option<String> {
        self.found
            .retain(|entry| entry.shape.len() >= 3 && entry.cells > 0 && entry.path != chosen);
        Some(self.names()).filter(|names| !names.is_empty())
    }

    /// Arrays of numbers and their shapes, the largest first.
    fn names(mut self) -> String {
        self.found.retain(|entry| entry.numeric && !entry.shape.is_empty());
        self.found.sort_by_key(|entry| std::cmp::Reverse(entry.cells));
        let names = self.found.iter().take(MOST_NAMED);
        let mut names: Vec<_> = names.map(|e| format!("'{}' {:?}", e.path, e.shape)).collect();
        if self.found.len() > MOST_NAMED {
            names.push(format!("{} more", self.found.len() - MOST_NAMED));
        }
        names.join(", ")
    }

    fn nothing_fits(self) -> Error {
        let names = self.names();
        let error =
            Error::unsupported("the file has no data set of numbers with three or more axes");
        if names.is_empty() {
            return error.with_hint("use a file that holds a stack of frames");
        }
        error.with_hint(format!("name another one by ds_path; there are {names}"))
    }
}

impl Entry {
    fn new(dataset: &Dataset, path: String) -> Self {
        let shape = dataset.shape().to_vec();
        let lens: Vec<usize> =
            shape.iter().map(|&len| usize::try_from(len).unwrap_or(usize::MAX)).collect();
        let cells = checked_product(&lens).unwrap_or(0);
        Entry { path, cells, shape, numeric: super::dtype::is_numeric(dataset) }
    }
}
