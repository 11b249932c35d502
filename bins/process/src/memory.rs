//! How much memory this process may have.

use std::{fs, path::Path};

/// Where the kernel tells the limit of a process's control group: version 2, and 1.
const LIMITS: [&str; 2] = [
    "sys/fs/cgroup/memory.max",
    "sys/fs/cgroup/memory/memory.limit_in_bytes",
];

/// Bytes of memory beyond which the kernel ends this process, as in a pod with a limit.
/// `None` where there is no such limit, or none can be read.
pub fn memory_limit() -> Option<u64> {
    limit_below(Path::new("/"))
}

fn limit_below(root: &Path) -> Option<u64> {
    let told = LIMITS.iter().find_map(|path| {
        let text = fs::read_to_string(root.join(path)).ok()?;
        // `max`, where there is none.
        text.trim().parse::<u64>().ok()
    });
    // What version 1 says where there is none is more than any machine has.
    told.filter(|limit| *limit < 1 << 60)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_limit_is_read_in_both_versions_and_none_is_none() {
        for (path, text, limit) in [
            (LIMITS[0], "1073741824\n", Some(1 << 30)),
            (LIMITS[0], "max\n", None),
            (LIMITS[1], "536870912\n", Some(512 << 20)),
            (LIMITS[1], "9223372036854771712\n", None),
            ("elsewhere", "1", None),
        ] {
            let root = tempfile::tempdir().unwrap();
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
            assert_eq!(limit_below(root.path()), limit, "{path}: {text}");
        }
    }
}
