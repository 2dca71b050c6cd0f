//! Which names a word was meant to be: those that take the fewest changes.

/// The names that are as few changes away as any, in their order: a letter more, fewer or another one, or two
/// neighbours swapped. None, if all are half as many changes away as the word has letters, or more.
pub fn nearest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let mut fewest = word.chars().count().div_ceil(2).saturating_sub(1);
    let mut found = Vec::new();
    for name in names {
        let n = changes(word, name);
        if n < fewest {
            found.clear();
        }
        if n <= fewest {
            fewest = n;
            found.push(name);
        }
    }
    found
}

/// How many changes make one word of the other (optimal string alignment).
fn changes(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    // Of the letters before each place of `from`, to those before each place of `to`: the last three rows.
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, &a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &b) in to.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX - 1);
            let mut n = at(&last, j) + usize::from(a != b);
            n = n.min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            let swapped = |(i, j): (usize, usize)| from.get(i) == Some(&b) && to.get(j) == Some(&a);
            if i.checked_sub(1).zip(j.checked_sub(1)).is_some_and(swapped) {
                n = n.min(at(&before, j - 1) + 1);
            }
            row.push(n);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(from.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted() {
        for (from, to, n) in [
            ("", "", 0),
            ("sum", "sum", 0),
            ("sum", "", 3),
            ("", "sum", 3),
            ("smu", "sum", 1),
            ("usm", "sum", 1),
            ("sm", "sum", 1),
            ("sumsig", "sum", 3),
            ("kitten", "sitting", 3),
            ("ca", "abc", 3),
            ("größe", "grösse", 2),
        ] {
            assert_eq!((changes(from, to), changes(to, from)), (n, n), "{from} {to}");
        }
    }

    #[test]
    fn the_nearest_names_are_given() {
        let names = ["sum", "sumsig", "com", "max", "masks", "ring", "pick", "stddev", "logsum"];
        for (word, expected) in [
            ("smu", &["sum"][..]),
            ("summm", &["sum"]),
            ("comm", &["com"]),
            ("cum", &["sum", "com"]),
            ("rng", &["ring"]),
            ("maks", &["masks"]),
            ("stdev", &["stddev"]),
            ("sumsg", &["sumsig"]),
            ("frobnicate", &[]),
            ("x", &[]),
            ("xy", &[]),
            ("", &[]),
        ] {
            assert_eq!(nearest(word, names), expected, "{word}");
        }
    }
}
