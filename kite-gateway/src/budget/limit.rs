//! How much memory the process may have, as its control group says.

use std::path::{Path, PathBuf};

/// The budget where nothing says how much memory there is, in bytes.
const UNKNOWN: u64 = 512 * 1024 * 1024;
/// Limits of version 1 beyond this mean that there is none.
const NO_LIMIT: u64 = 1 << 60;

/// Half of what the process's control group may have, in bytes: the other half is for
/// connections themselves, and the rest of the process.
pub(crate) fn default_budget() -> u64 {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    limit(Path::new("/sys/fs/cgroup"), &groups).map_or(UNKNOWN, |limit| limit / 2)
}

/// The smallest limit of the groups that `groups` names, as in `/proc/self/cgroup`, and
/// of those around them. In a container the path may be that of the host, and only the
/// root of what is mounted is there.
fn limit(mounted: &Path, groups: &str) -> Option<u64> {
    groups
        .lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let (root, file) = match controllers {
                "" => (mounted.to_owned(), "memory.max"),
                it if it.split(',').any(|it| it == "memory") => {
                    (mounted.join("memory"), "memory.limit_in_bytes")
                }
                _ => return None,
            };
            let group: PathBuf = root.join(path.trim_start_matches('/'));
            let around = group.ancestors().take_while(|it| it.starts_with(&root));
            around.filter_map(|it| read(&it.join(file))).min()
        })
        .min()
}

fn read(file: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    // `max` is none.
    text.trim().parse().ok().filter(|limit| *limit < NO_LIMIT)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn limit_with(files: &[(&str, &str)], groups: &str) -> Option<u64> {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = dir.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        limit(dir.path(), groups)
    }

    #[test]
    fn the_narrowest_group_counts() {
        let v2 = |files: &[(&str, &str)]| limit_with(files, "0::/kubepods/pod1/ctr\n");
        assert_eq!(v2(&[]), None);
        assert_eq!(v2(&[("memory.max", "1073741824\n")]), Some(1 << 30));
        assert_eq!(v2(&[("memory.max", "max\n")]), None);
        let nested = [
            ("kubepods/memory.max", "4096\n"),
            ("kubepods/pod1/memory.max", "1024\n"),
            ("kubepods/pod1/ctr/memory.max", "max\n"),
            ("kubepods/pod2/memory.max", "1\n"),
        ];
        assert_eq!(v2(&nested), Some(1024));
    }

    #[test]
    fn version_1_is_read_too() {
        let groups = "12:cpu,cpuacct:/a\n11:memory:/docker/x\n0::/system.slice\n";
        let none = [("memory/memory.limit_in_bytes", "9223372036854771712\n")];
        assert_eq!(limit_with(&none, groups), None);
        let some = [("memory/memory.limit_in_bytes", "2048\n")];
        assert_eq!(limit_with(&some, groups), Some(2048));
    }
}
