//! How much memory the system has left for this process.
//!
//! A piece of memory may be as large as what is available to new programs, swap included, and as
//! what each control group that the process is in has left: containers and batch systems end a
//! process that takes more.

use framefold_core::memory;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// From now on, no piece of memory is taken that is larger than what the system has left.
///
/// Every plan begins with it; programs that open files of strangers do so earlier.
pub fn heed_system_memory() {
    memory::set_budget(|| left(Path::new("/")));
}

/// What a system has left whose root is `root`; any number if it does not say.
fn left(root: &Path) -> u64 {
    let groups = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let groups = groups.lines().filter_map(|line| {
        // `number:controllers:path`; in the newer hierarchy, there are no controllers.
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let newer = controllers.is_empty();
        let older = controllers.split(',').any(|controller| controller == "memory");
        (newer || older).then(|| of_groups(root, path, newer))
    });
    groups.fold(of_the_machine(root), u64::min)
}

fn of_the_machine(root: &Path) -> u64 {
    let meminfo = read_to_string(root.join("proc/meminfo")).unwrap_or_default();
    let kibibytes = |name| number_of(&meminfo, name);
    let available = kibibytes("MemAvailable:");
    let total = available.map(|left| left.saturating_add(kibibytes("SwapFree:").unwrap_or(0)));
    total.map_or(u64::MAX, |total| total.saturating_mul(1024))
}

/// What the group of that path and those around it have left.
fn of_groups(root: &Path, path: &str, newer: bool) -> u64 {
    let (base, most, used, cached, not_written) = match newer {
        true => (
            "sys/fs/cgroup",
            "memory.max",
            "memory.current",
            ["inactive_file", "active_file"],
            ["file_dirty", "file_writeback"],
        ),
        false => (
            "sys/fs/cgroup/memory",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            ["total_inactive_file", "total_active_file"],
            ["total_dirty", "total_writeback"],
        ),
    };
    let base = root.join(base);
    let group: PathBuf = base.join(path.trim_start_matches('/'));
    let mut left = u64::MAX;
    for folder in group.ancestors().take_while(|folder| folder.starts_with(&base)) {
        let number = |name| read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        // Without a limit it says `max`.
        let Some((most, used)) = number(most).zip(number(used)) else { continue };
        let stat = read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let sum = |names: [&str; 2]| {
            let numbers = names.map(|name| number_of(&stat, name).unwrap_or(0));
            numbers.into_iter().fold(0, u64::saturating_add)
        };
        // The system drops pages of files when it needs memory, those in use as well, but for what
        // the disk has not got yet.
        let used = used.saturating_sub(sum(cached).saturating_sub(sum(not_written)));
        left = left.min(most.saturating_sub(used));
    }
    left
}

/// The number behind a name at the beginning of a line.
fn number_of(text: &str, name: &str) -> Option<u64> {
    let numbers = text.lines().find_map(|line| line.strip_prefix(name));
    numbers?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_that_anybody_says_is_left() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let left = || left(root.path());
        assert_eq!(left(), u64::MAX);
        write("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:   600 kB\nSwapFree: 100 kB\n");
        assert_eq!(left(), 700 << 10);

        write("proc/self/cgroup", "0::/a/b\n");
        assert_eq!(left(), 700 << 10);
        write("sys/fs/cgroup/a/b/memory.max", "max\n");
        write("sys/fs/cgroup/a/b/memory.current", "1000\n");
        assert_eq!(left(), 700 << 10);
        // Of the group around it.
        write("sys/fs/cgroup/a/memory.max", "50000\n");
        write("sys/fs/cgroup/a/memory.current", "30000\n");
        assert_eq!(left(), 20000);
        write("sys/fs/cgroup/a/memory.stat", "anon 20000\ninactive_file 5000\n");
        assert_eq!(left(), 25000);
        let cached = "inactive_file 5000\nactive_file 4000\nfile_dirty 300\nfile_writeback 20\n";
        write("sys/fs/cgroup/a/memory.stat", cached);
        assert_eq!(left(), 20000 + 8680);
        write("sys/fs/cgroup/a/b/memory.max", "2000\n");
        assert_eq!(left(), 1000);

        // The older hierarchy, seen from within a container: paths are those outside.
        write("proc/self/cgroup", "5:cpu,memory:/elsewhere\n4:pids:/a\n");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "7000");
        write("sys/fs/cgroup/memory/memory.usage_in_bytes", "7000");
        assert_eq!(left(), 0);
        write("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 3");
        assert_eq!(left(), 3);
        let cached =
            "total_inactive_file 30\ntotal_active_file 20\ntotal_dirty 5\ntotal_writeback 1";
        write("sys/fs/cgroup/memory/memory.stat", cached);
        assert_eq!(left(), 44);
        // Groups that have nothing to do with memory.
        write("proc/self/cgroup", "5:cpu,cpuacct:/elsewhere\n4:pids:/a\n");
        assert_eq!(left(), 700 << 10);
    }
}
