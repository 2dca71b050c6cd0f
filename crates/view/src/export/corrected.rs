//! Corrections of raw pixels that were given as files, so that a script can apply them again.

use super::opened::call;
use super::python::{Literal, path_of};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Dark frame, gain map and bad pixels of frames of one shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Corrected {
    /// The shape of a frame.
    pub frame: Vec<usize>,
    /// A file with what is subtracted.
    pub dark: Option<PathBuf>,
    /// A file with what is multiplied with.
    pub gain: Option<PathBuf>,
    /// The pixels that are repaired.
    pub bad: Option<Bad>,
}

/// How bad pixels were given.
#[derive(Clone, Debug, PartialEq)]
pub enum Bad {
    /// A file with an array of the shape of a frame, of which elements other than 0 are bad.
    Mask(PathBuf),
    /// A file with the coordinates of a pixel in each row.
    Rows(PathBuf),
    /// A file with the coordinates of a pixel in each column.
    Columns(PathBuf),
    /// Every so many of a range of each axis, several times.
    Blocks(Vec<Vec<(Range<usize>, usize)>>),
}

impl Corrected {
    /// Lines that make `corrections`, with `lt` and `np`.
    pub(super) fn code(&self) -> Vec<String> {
        let frame = Literal::shape(&self.frame).code();
        let load = |path: &Path| format!("np.load({})", path_of(path).code());
        // Lines may have another axis of length 1 in files.
        let plane = |path: &Path| match self.frame.len() {
            1 => format!("{}.reshape({frame})", load(path)),
            _ => load(path),
        };
        let mut lines = Vec::new();
        let mut arguments = Vec::new();
        for (name, path) in [("dark", &self.dark), ("gain", &self.gain)] {
            arguments.extend(path.as_ref().map(|path| format!("{name}={}", plane(path))));
        }
        if let Some(bad) = &self.bad {
            match bad {
                Bad::Mask(path) => lines.push(format!("bad = {} != 0", plane(path))),
                Bad::Rows(_) | Bad::Columns(_) | Bad::Blocks(_) => {
                    lines.push(format!("bad = np.zeros({frame}, dtype=bool)"));
                }
            }
            match bad {
                Bad::Mask(_) => {}
                Bad::Rows(path) => {
                    let n_axes = self.frame.len();
                    lines
                        .push(format!("bad[tuple({}.reshape(-1, {n_axes}).T)] = True", load(path)));
                }
                Bad::Columns(path) => {
                    let n_axes = self.frame.len();
                    lines.push(format!("bad[tuple({}.reshape({n_axes}, -1))] = True", load(path)));
                }
                Bad::Blocks(blocks) => {
                    let blocks = blocks.iter().map(|block| {
                        let axes: Vec<String> = block.iter().map(slice).collect();
                        format!("bad[{}] = True", axes.join(", "))
                    });
                    lines.extend(blocks);
                }
            }
            lines.push("if not lt.__name__.startswith(\"framefold\"):".to_owned());
            lines.push("    import sparse".to_owned());
            lines.push("    bad = sparse.COO.from_numpy(bad)".to_owned());
            arguments.push("excluded_pixels=bad".to_owned());
            // Those without a good neighbour stay as they are.
            arguments.push("allow_empty=True".to_owned());
        }
        lines.push(call("corrections = CorrectionSet", &arguments));
        lines
    }
}

fn slice((range, step): &(Range<usize>, usize)) -> String {
    match (range.len(), step) {
        (1, _) => range.start.to_string(),
        (_, 1) => format!("{}:{}", range.start, range.end),
        _ => format!("{}:{}:{step}", range.start, range.end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_is_given_again() {
        let all = Corrected {
            frame: vec![4, 5],
            dark: Some("/a \"b\"/dark.npy".into()),
            gain: Some("/gain.npy".into()),
            bad: Some(Bad::Blocks(vec![vec![(1..2, 1), (2..3, 1)], vec![(0..4, 1), (1..5, 2)]])),
        };
        let code = all.code().join("\n");
        for part in [
            "bad = np.zeros((4, 5), dtype=bool)\nbad[1, 2] = True\nbad[0:4, 1:5:2] = True\n",
            "    bad = sparse.COO.from_numpy(bad)\n",
            "dark=np.load(\"/a \\\"b\\\"/dark.npy\")",
            "gain=np.load(\"/gain.npy\")",
            "excluded_pixels=bad",
        ] {
            assert!(code.contains(part), "{part} is not in\n{code}");
        }
        let none = Corrected { bad: None, dark: None, ..all.clone() };
        assert_eq!(none.code(), ["corrections = CorrectionSet(gain=np.load(\"/gain.npy\"))"]);
        for (bad, part) in [
            (Bad::Mask("/m.npy".into()), "bad = np.load(\"/m.npy\") != 0"),
            (Bad::Rows("/m.npy".into()), "bad[tuple(np.load(\"/m.npy\").reshape(-1, 2).T)] = True"),
            (
                Bad::Columns("/m.npy".into()),
                "bad[tuple(np.load(\"/m.npy\").reshape(2, -1))] = True",
            ),
        ] {
            let code = Corrected { bad: Some(bad), ..none.clone() }.code().join("\n");
            assert!(code.contains(part), "{part} is not in\n{code}");
        }
    }
}
