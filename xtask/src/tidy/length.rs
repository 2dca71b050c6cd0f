//! Files stay short: past 600 lines they say why, past 1000 they are split.

use super::{File, Finding};

const RULE: &str = "length";
const MAX_LINES: usize = 1000;
const MAX_LINES_WITHOUT_REASON: usize = 600;
/// How far into the file the reason may stand.
const HEAD_LINES: usize = 12;
const REASON: &str = "Long because:";

/// Checks the number of lines of source files.
pub(super) fn check(file: File<'_>) -> Vec<Finding> {
    if !file.has_extension(&["rs", "py", "pyi"]) {
        return vec![];
    }
    let n_lines = file.text.lines().count();
    if n_lines > MAX_LINES {
        let message = format!("{n_lines} lines, at most {MAX_LINES} are allowed: split the file");
        return vec![file.finding(RULE, MAX_LINES + 1, message)];
    }
    let has_reason = || {
        let reason = |line: &str| line.split_once(REASON).map(|(_, reason)| reason.trim().len());
        file.text.lines().take(HEAD_LINES).filter_map(reason).any(|len| len > 0)
    };
    if n_lines > MAX_LINES_WITHOUT_REASON && !has_reason() {
        let message = format!(
            "{n_lines} lines: split the file, or write '{REASON} …' into its first {HEAD_LINES} \
             lines"
        );
        return vec![file.finding(RULE, MAX_LINES_WITHOUT_REASON + 1, message)];
    }
    vec![]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines_found(path: &str, head: &str, n_lines: usize) -> Vec<usize> {
        let text = format!("{head}\n{}", "x\n".repeat(n_lines - 1));
        check(File { path, text: &text }).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn six_hundred_lines_need_no_reason() {
        assert_eq!(lines_found("a.rs", "//! A.", 600), NONE);
        assert_eq!(lines_found("a.rs", "//! A.", 601), [601]);
    }

    #[test]
    fn a_reason_is_good_for_a_thousand_lines() {
        let head = "//! A. Long because: one table.";
        assert_eq!(lines_found("a.py", head, 1000), NONE);
        assert_eq!(lines_found("a.py", head, 1001), [1001]);
    }

    #[test]
    fn a_reason_is_not_empty_and_not_hidden() {
        assert_eq!(lines_found("a.rs", "//! Long because:", 700), [601]);
        let late = format!("{}//! Long because: late.", "//!\n".repeat(20));
        assert_eq!(lines_found("a.rs", &late, 700), [601]);
    }

    #[test]
    fn stubs_count_and_documents_do_not() {
        assert_eq!(lines_found("a.pyi", "", 601), [601]);
        assert_eq!(lines_found("a.md", "", 5000), NONE);
    }
}
