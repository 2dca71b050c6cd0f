//! Folders and patterns that stand for files, and the order of files in a stack.
//!
//! Names are in natural order: digits, wherever they are, count as numbers, so that `img2` comes
//! before `img10`; letters count the same in either case. Where names are still equal, fewer zeros
//! in front come first, then capitals.

use crate::access::names::letters;
use crate::access::storage::{absolute, check_path};
use framefold_core::{Axis, Error, MetadataList, Result, axes};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// The files that a path stands for, if it is a folder or a pattern such as `scan/*.tif`: in natural
/// order, at least one. A name that is there is no pattern, whatever is in it.
///
/// Of a folder, those with one of `extensions`; without hidden ones. Of a pattern, names that begin with a
/// dot only where the pattern has one there.
///
/// # Errors
/// `InvalidArgument` if there are none, or the pattern makes no sense; `Io`.
pub(crate) fn expand(path: &Path, extensions: &[&str]) -> Result<Option<Vec<PathBuf>>> {
    if path.is_dir() {
        let files = in_folder(path, extensions)?;
        if files.is_empty() {
            let names: Vec<String> = extensions.iter().map(|e| format!("*.{e}")).collect();
            return Err(Error::invalid(format!("the folder has no file {}", names.join(", ")))
                .with_path(path)
                .with_hint("name the files by a pattern, such as 'folder/*.bin'"));
        }
        return Ok(Some(files));
    }
    if path.to_string_lossy().contains(WILDCARDS) && !path.exists() {
        return matching(path).map(Some);
    }
    Ok(None)
}

const WILDCARDS: [char; 3] = ['*', '?', '['];

/// The patterns by which [`expand`] finds the files that a path stands for.
pub(crate) fn patterns(path: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let path = absolute(path);
    if !path.is_dir() {
        return vec![path];
    }
    let folder = match path.to_string_lossy() {
        text if text.contains(WILDCARDS) => PathBuf::from(glob::Pattern::escape(&text)),
        _ => path,
    };
    // As they are found in folders: in either case.
    let any_case = |letter: char| format!("[{letter}{}]", letter.to_ascii_uppercase());
    let ending = |extension: &str| extension.chars().map(any_case).collect::<String>();
    extensions.iter().map(|extension| folder.join(format!("*.{}", ending(extension)))).collect()
}

/// Whether a pattern finds what is to be at `path`, a path without links. Links below the first wildcard of the
/// pattern are not followed.
pub(crate) fn would_find(pattern: &Path, path: &Path) -> bool {
    let Ok((mut folder, names)) = parsed(pattern) else { return false };
    let n_plain = names.iter().take_while(|(_, pattern)| pattern.is_none()).count();
    let (plain, names) = names.split_at(n_plain);
    folder.extend(plain.iter().map(|(name, _)| name));
    let rest = folder.canonicalize().ok().and_then(|folder| path.strip_prefix(folder).ok());
    rest.is_some_and(|rest| matches(names, &rest.iter().collect::<Vec<_>>()))
}

fn matches(names: &[Name<'_>], path: &[&OsStr]) -> bool {
    let Some(((own, pattern), rest)) = names.split_first() else { return path.is_empty() };
    let any_folders = *own == "**";
    if any_folders && matches(rest, path) {
        return true;
    }
    let Some((name, below)) = path.split_first() else { return false };
    let fits = pattern.as_ref().map_or(own == name, |pattern| fits(own, pattern, name));
    fits && matches(if any_folders { names } else { rest }, below)
}

/// A name of a pattern: what it is, and what matches it if it has wildcards.
type Name<'a> = (&'a OsStr, Option<glob::Pattern>);

fn matching(path: &Path) -> Result<Vec<PathBuf>> {
    let (folder, names) = parsed(path)?;
    let mut files = Vec::new();
    // What ends like a folder is none of the files.
    if !path.to_string_lossy().ends_with(std::path::is_separator) {
        walk(&folder, &names, &mut files)?;
    }
    if files.is_empty() {
        return Err(Error::invalid("there is no file, and no file matches this as a pattern")
            .with_path(path)
            .with_hint(check_path(path)));
    }
    sort(&mut files);
    // `**/a/**` finds some in several ways.
    files.dedup();
    Ok(files)
}

/// The root of a pattern, which is empty for the current folder, and the names behind it.
fn parsed(path: &Path) -> Result<(PathBuf, Vec<Name<'_>>)> {
    let no_pattern = |why: &str| {
        Error::invalid(format!("this is no pattern: {why}"))
            .with_path(path)
            .with_hint("use * for any text, ? for any letter, [0-9] for one of several")
    };
    let mut folder = PathBuf::new();
    let mut names: Vec<Name<'_>> = Vec::new();
    for component in path.components() {
        let name = component.as_os_str();
        match component {
            Component::Prefix(_) | Component::RootDir => folder.push(name),
            Component::CurDir => {}
            // Two of them find what one does.
            _ if name == "**" && names.last().is_some_and(|(last, _)| *last == "**") => {}
            _ if name.to_string_lossy().contains(WILDCARDS) => {
                // One that is not UTF-8 is one of bytes.
                let text = name.to_str().map_or_else(|| Cow::from(letters(name)), Cow::from);
                let pattern = glob::Pattern::new(&text).map_err(|error| no_pattern(error.msg))?;
                names.push((name, Some(pattern)));
            }
            _ => names.push((name, None)),
        }
    }
    Ok((folder, names))
}

/// Adds the files below `folder`, which is empty for the current one, that match all of `names`.
fn walk(folder: &Path, names: &[Name<'_>], files: &mut Vec<PathBuf>) -> Result<()> {
    let Some(((own, pattern), rest)) = names.split_first() else {
        if folder.is_file() {
            files.push(folder.to_path_buf());
        }
        return Ok(());
    };
    let Some(pattern) = pattern else { return walk(&folder.join(own), rest, files) };
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    if !listed.is_dir() {
        return Ok(());
    }
    let any_folders = *own == "**";
    if any_folders {
        walk(folder, rest, files)?;
    }
    let unreadable = |source| Error::io("list the folder", source).with_path(listed);
    for entry in std::fs::read_dir(listed).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        if !fits(own, pattern, &name) {
            continue;
        }
        let path = folder.join(&name);
        if any_folders {
            let kind = entry.file_type().map_err(unreadable)?;
            if kind.is_dir() || (kind.is_symlink() && !leads_back(&path, listed)) {
                walk(&path, names, files)?;
            }
        } else {
            walk(&path, rest, files)?;
        }
    }
    Ok(())
}

/// Whether a name of a pattern with wildcards, `own`, matches the name of a file or folder.
fn fits(own: &OsStr, pattern: &glob::Pattern, name: &OsStr) -> bool {
    let text = match own.to_str() {
        // Bytes that are not UTF-8 match as a letter that no name has.
        Some(_) => name.to_string_lossy(),
        // As the pattern.
        None => Cow::from(letters(name)),
    };
    (!text.starts_with('.') || pattern.as_str().starts_with('.')) && pattern.matches(&text)
}

/// Whether a link leads to a folder that `folder` was reached through, or to one above such a folder.
fn leads_back(link: &Path, folder: &Path) -> bool {
    let Ok(to) = std::fs::canonicalize(link) else { return false };
    folder.ancestors().any(|passed| {
        let passed = if passed.as_os_str().is_empty() { Path::new(".") } else { passed };
        std::fs::canonicalize(passed).is_ok_and(|passed| passed.starts_with(&to))
    })
}

/// The files in a folder with one of these extensions, in natural order.
///
/// # Errors
/// `Io` if the folder cannot be listed.
pub(crate) fn in_folder(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let unreadable = |source| Error::io("list the folder", source).with_path(folder);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        // Only links have to be asked what they lead to.
        let is_file = entry
            .file_type()
            .is_ok_and(|kind| kind.is_file() || (kind.is_symlink() && path.is_file()));
        if !hidden && is_file && extensions.contains(&extension(&path).as_str()) {
            files.push(path);
        }
    }
    sort(&mut files);
    Ok(files)
}

/// The extension of a path: lower case, empty if there is none.
pub(crate) fn extension(path: &Path) -> String {
    path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default()
}

fn sort(files: &mut [PathBuf]) {
    // Texts of names that are not UTF-8 can be the same.
    let by_name = |a: &PathBuf, b: &PathBuf| natural(&a.to_string_lossy(), &b.to_string_lossy());
    files.sort_by(|a, b| by_name(a, b).then_with(|| a.cmp(b)));
}

/// Natural order.
pub(crate) fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    let mut zeros = Ordering::Equal;
    loop {
        let (Some(x), Some(y)) = (left.chars().next(), right.chars().next()) else {
            return left.len().cmp(&right.len()).then(zeros).then_with(|| a.cmp(b));
        };
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let ((x, after_x), (y, after_y)) = (number(left), number(right));
            let [short_x, short_y] = [x, y].map(|digits| digits.trim_start_matches('0'));
            let order = short_x.len().cmp(&short_y.len()).then_with(|| short_x.cmp(short_y));
            if order != Ordering::Equal {
                return order;
            }
            zeros = zeros.then(x.len().cmp(&y.len()));
            (left, right) = (after_x, after_y);
            continue;
        }
        // Folders first: what is in one stays together.
        let fold = |c: char| (c != '/', c.to_lowercase().next().unwrap_or(c));
        match fold(x).cmp(&fold(y)) {
            Ordering::Equal => {}
            order => return order,
        }
        left = left.get(x.len_utf8()..).unwrap_or_default();
        right = right.get(y.len_utf8()..).unwrap_or_default();
    }
}

/// The digits that a text begins with, and what follows them.
fn number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// The sizes of pixels in the files of a stack, of which those of the first file are taken.
#[derive(Debug, Default)]
pub(crate) struct PixelSizes {
    /// The name of the first file, and the axes of its frames.
    first: Option<(String, Vec<Axis>)>,
    /// Those of the first file that has others, and how many more there are.
    other: Option<(String, Vec<Axis>)>,
    n_more: usize,
}

impl PixelSizes {
    /// Adds those of the next file.
    pub(crate) fn add(&mut self, path: &Path, sig_shape: &[usize], metadata: &MetadataList) {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let axes = axes(&[], sig_shape, metadata);
        let Some((_, first)) = &self.first else {
            self.first = Some((name, axes));
            return;
        };
        let differ = first.iter().zip(&axes).any(|(one, next)| {
            let both_known = !one.unit.is_empty() && !next.unit.is_empty();
            let same = (one.scale - next.scale).abs() <= 1e-3 * one.scale.abs();
            both_known && !(same && one.unit == next.unit)
        });
        match &self.other {
            None if differ => self.other = Some((name, axes)),
            Some(_) if differ => self.n_more += 1,
            _ => {}
        }
    }

    /// That they are not the same.
    pub(crate) fn warning(&self) -> Option<String> {
        let ((first, of_first), (other, of_other)) = (self.first.as_ref()?, self.other.as_ref()?);
        let shown = |axes: &[Axis]| {
            let axes = axes.iter().map(|axis| match axis.unit.as_str() {
                "" => format!("{} unknown", axis.name),
                unit => format!("{} {} {unit}", axis.name, axis.scale),
            });
            axes.collect::<Vec<_>>().join(", ")
        };
        let more = match self.n_more {
            0 => String::new(),
            n => format!(", and so on in {n} more"),
        };
        Some(format!(
            "pixels are not of one size in all files: {} in '{first}', {} in '{other}'{more}; those \
             of '{first}' are taken for all frames",
            shown(of_first),
            shown(of_other)
        ))
    }
}

/// What is odd about the names of the files of a stack: an order that is not natural, and numbers
/// that are left out.
pub(crate) fn notes(files: &[PathBuf]) -> Vec<String> {
    let names: Vec<String> = files
        .iter()
        .map(|path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned())
        .collect();
    let mut notes = Vec::new();
    let mut pairs = names.iter().zip(names.iter().skip(1));
    let swapped = pairs.find(|(one, next)| natural(one, next) == Ordering::Greater);
    let same_folder = files.is_sorted_by(|one, next| one.parent() == next.parent());
    if let (Some((one, next)), true) = (swapped, same_folder) {
        notes.push(format!(
            "the list has '{one}' before '{next}', which is not the order of their numbers or \
             letters; frames are in the order of the list"
        ));
    }
    notes.extend(left_out(&names));
    notes
}

/// Numbers that are missing in a series of names that differ in one number.
fn left_out(names: &[String]) -> Option<String> {
    if names.len() < 3 {
        return None;
    }
    let split: Vec<(Vec<&str>, Vec<u64>)> =
        names.iter().map(|name| parts(name)).collect::<Option<_>>()?;
    let (texts, first) = split.first()?;
    if !split.iter().all(|(other, numbers)| other == texts && numbers.len() == first.len()) {
        return None;
    }
    let varies = |i: &usize| split.iter().any(|(_, numbers)| numbers.get(*i) != first.get(*i));
    let varying: Vec<usize> = (0..first.len()).filter(varies).collect();
    let [place] = *varying.as_slice() else { return None };
    let mut series: Vec<(u64, usize)> = split
        .iter()
        .enumerate()
        .filter_map(|(i, (_, numbers))| Some((*numbers.get(place)?, i)))
        .collect();
    series.sort_unstable();
    let pairs = || series.iter().zip(series.iter().skip(1));
    let steps = || pairs().map(|(one, next)| next.0 - one.0);
    let step = steps().min().filter(|&step| step > 0)?;
    let missing = steps().try_fold(0u64, |sum, d| {
        d.is_multiple_of(step).then(|| sum.saturating_add(d / step - 1))
    })?;
    // Times and the like are no series.
    if missing == 0 || missing > u64::try_from(names.len()).unwrap_or(u64::MAX) {
        return None;
    }
    let (one, next) = pairs().find(|(one, next)| next.0 - one.0 > step)?;
    let [before, after] = [names.get(one.1)?, names.get(next.1)?];
    Some(format!(
        "the numbers in the names of the files leave out {missing}, first between '{before}' and \
         '{after}'; if frames were lost there, all later ones are shown too early in the scan"
    ))
}

/// The texts and the numbers of a name.
fn parts(name: &str) -> Option<(Vec<&str>, Vec<u64>)> {
    let (mut texts, mut numbers) = (Vec::new(), Vec::new());
    let mut rest = name;
    loop {
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, after) = rest.split_at(end);
        texts.push(text);
        if after.is_empty() {
            return Some((texts, numbers));
        }
        let (digits, after) = number(after);
        numbers.push(digits.parse().ok()?);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_hidden_is_taken_where_the_pattern_has_a_dot() {
        for (pattern, path, taken) in [
            ("a/*.npy", "a/1.npy", true),
            ("a/*.npy", "a/._1.npy", false),
            ("a/[.]*", "a/.b", false),
            ("./a/.*", "a/.b", true),
            ("*/b", ".a/b", false),
            (".a/../.[ab]/*", ".a/../.b/c", true),
            ("**/c*", "a/b/c", true),
            ("**/c*", "c", true),
            ("**/c*", "a/.b/c", false),
            ("**/.*", "a/b/.c", true),
            ("**/.*/c", "a/.b/c", true),
            ("**/.*/**/c", "a/.b/d/c", true),
            ("**/.*/**/c", ".a/.b/d/c", false),
            ("**/.*/**/c", "a/.b/.d/c", false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            fs::create_dir(at(".a")).unwrap();
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), "").unwrap();
            let found = expand(&at(pattern), &[]).is_ok();
            assert_eq!(found, taken, "{pattern} {path}");
        }
    }

    #[test]
    fn patterns_would_find_what_they_find_once_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a[1]/b")).unwrap();
        for (pattern, path, found) in [
            ("a[[]1]/*.npy", "a[1]/x.npy", true),
            ("a[[]1]/*.npy", "a[1]/.x.npy", false),
            ("a[[]1]/*.npy", "a[1]/x.h5", false),
            ("a[[]1]/*.npy", "a[1]/b/x.npy", false),
            ("a[[]1]/*.npy", "x.npy", false),
            ("a[[]1]/b/../*.npy", "a[1]/x.npy", false),
            ("./*/b/x?.npy", "a[1]/b/x1.npy", true),
            ("./*/c/x?.npy", "a[1]/b/x1.npy", false),
            ("**/x.npy", "x.npy", true),
            ("**/x.npy", "a[1]/b/x.npy", true),
            ("**/b/**/*.npy", "a[1]/b/x.npy", true),
            ("**/b/*/*.npy", "a[1]/b/x.npy", false),
            ("a[1", "a[1", false),
        ] {
            let (pattern, path) = (root.join(pattern), root.join(path));
            let what = format!("{} {}", pattern.display(), path.display());
            assert_eq!(would_find(&pattern, &path), found, "{what}");
            fs::write(&path, "").unwrap();
            let files = expand(&pattern, &[]).ok().flatten().unwrap_or_default();
            let is_found = files.iter().any(|file| file.canonicalize().unwrap() == path);
            // What leads up again behind a wildcard is not looked at.
            assert_eq!(is_found, found || what.contains(".."), "{what}");
            fs::remove_file(&path).unwrap();
        }
        let of_folder = patterns(&root.join("a[1]"), &["npy", "tif"]);
        assert_eq!(of_folder.len(), 2);
        assert!(would_find(&of_folder[0], &root.join("a[1]/x.npy")));
        assert!(would_find(&of_folder[1], &root.join("a[1]/x.tif")));
        assert!(would_find(&of_folder[1], &root.join("a[1]/X.TIF")));
        assert!(!would_find(&of_folder[0], &root.join("a[1]/b/x.npy")));
    }

    #[test]
    fn patterns_find_each_file_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("a/a/b")).unwrap();
        for name in ["a/1.npy", "a/a/1.npy", "a/a/b/2.npy", "a/a/b/10.npy"] {
            fs::write(at(name), "").unwrap();
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(at("a"), at("a/a/back")).unwrap();
        // Two that lead to each other: each is passed once.
        #[cfg(unix)]
        for (folder, name, other) in [("c", "there", "d"), ("c", "too", "d"), ("d", "back", "c")] {
            fs::create_dir_all(at(folder)).unwrap();
            std::os::unix::fs::symlink(at(other), at(folder).join(name)).unwrap();
        }
        #[cfg(unix)]
        fs::write(at("c/3.npy"), "").unwrap();
        for (pattern, found) in [
            ("**/a/**/**/*.npy", &["a/1.npy", "a/a/1.npy", "a/a/b/2.npy", "a/a/b/10.npy"][..]),
            ("a/**/[0-9].npy", &["a/1.npy", "a/a/1.npy", "a/a/b/2.npy"]),
            ("a/../*/a/b/../*.npy", &["a/../a/a/b/../1.npy"]),
            ("?/*.npy/*", &[]),
            ("a/*.npy/", &[]),
            ("a/**", &[]),
            ("b/*", &[]),
            #[cfg(unix)]
            ("c/**/*.npy", &["c/3.npy"]),
            #[cfg(unix)]
            ("d/**/*.npy", &["d/back/3.npy"]),
        ] {
            let files = expand(&at(pattern), &[]).ok().flatten().unwrap_or_default();
            assert_eq!(files, found.iter().map(|name| at(name)).collect::<Vec<_>>(), "{pattern}");
        }
        assert!(expand(&at("a/[1.npy"), &[]).unwrap_err().to_string().contains("no pattern"));
    }

    #[test]
    fn names_are_in_natural_order() {
        let sorted = [
            "",
            "1",
            "2",
            "02",
            "10",
            "1000000000000000000000",
            "A2",
            "a2",
            "a02",
            "a2b",
            "a10",
            "b",
            "img",
            "img2.tif",
            "img10.tif",
            "img10_2.tif",
            "img10_10.tif",
            "scan/2",
            "scan/10",
            "scan 1/1",
            "x1y2",
            "x1y10",
            "x02y1",
            "ä1",
        ];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(natural(a, b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }

    fn notes_of(names: &[&str]) -> Vec<String> {
        notes(&names.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    #[test]
    fn numbers_that_are_left_out_are_named() {
        for complete in [
            &["a1.tif", "a2.tif", "a3.tif"][..],
            &["10", "20", "30"],
            &["a", "b", "c"],
            &["a1", "b2", "c4"],
            &["r1c1", "r1c2", "r2c1"],
            &["20250101120000", "20250101120003", "20250101120100"],
            &["1", "3"],
            &[],
        ] {
            assert_eq!(notes_of(complete), [] as [&str; 0], "{complete:?}");
        }
        let notes = notes_of(&["a01.tif", "a02.tif", "a04.tif"]);
        assert!(
            notes[0].contains("leave out 1, first between 'a02.tif' and 'a04.tif'"),
            "{notes:?}"
        );
        assert!(notes_of(&["10", "20", "40", "70"])[0].contains("leave out 3,"));
    }

    #[test]
    fn lists_in_another_order_are_noted() {
        let notes = notes_of(&["a1", "a10", "a2", "a3"]);
        assert!(notes[0].contains("'a10' before 'a2'"), "{notes:?}");
    }
}
