//! The library crates as a registry would have them.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};

/// The library crates, in an order in which they can be published: each after what
/// it depends on, its tests included.
pub const LIBRARIES: [&str; 15] = [
    "kite-fake",
    "kite-conformance",
    "kite-cluster",
    "kite-runtime",
    "kite-core",
    "kite-audit",
    "kite-fake-kubevirt",
    "kite-render",
    "kite-disks",
    "kite-reconcile",
    "kite-ssh-relay",
    "kite-gateway",
    "kite-rest",
    "kite-identity",
    "kite-api",
];

/// Where a library crate lies in the repository: a family's is below its first one.
pub fn folder(library: &str) -> &Path {
    Path::new(match library {
        "kite-cluster" => "kite-core/cluster",
        "kite-runtime" => "kite-reconcile/runtime",
        "kite-disks" => "kite-reconcile/disks",
        "kite-ssh-relay" => "kite-gateway/relay",
        "kite-rest" => "kite-api/rest",
        "kite-identity" => "kite-api/identity",
        "kite-conformance" => "kite-fake/conformance",
        "kite-fake-kubevirt" => "kite-fake/kubevirt",
        alone => alone,
    })
}

/// Packages `names` and unpacks them below `directory`, each into a directory of its
/// name and version. Only files that differ from those of an earlier run are written,
/// and others removed, so that cargo builds again just what has changed. Gives the
/// names of the directories.
///
/// # Errors
/// Cargo cannot package them, or a file cannot be written.
pub fn unpack(names: &[&str], directory: &Path) -> anyhow::Result<Vec<String>> {
    let work = directory.join(".work");
    remove(&work)?;
    let mut package = crate::cargo(&crate::root());
    // Against no registry: what is packaged together may depend on one another, and
    // of all else the workspace's lock file has the version.
    package.args(["package", "--no-verify", "--allow-dirty", "--offline"]);
    package.args(["--quiet", "--target-dir"]).arg(&work);
    for name in names {
        package.args(["--package", name]);
    }
    crate::output(&mut package)?;
    let fresh = work.join("fresh");
    fs::create_dir_all(&fresh)?;
    for entry in fs::read_dir(work.join("package"))? {
        let file = entry?.path();
        if file.extension().is_some_and(|suffix| suffix == "crate") {
            let mut tar = Command::new("tar");
            tar.arg("-xzf").arg(&file).arg("-C").arg(&fresh);
            crate::output(&mut tar)?;
        }
    }
    let mut unpacked = Vec::new();
    for entry in fs::read_dir(&fresh)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        sync(&entry.path(), &directory.join(&name))?;
        unpacked.push(name);
    }
    remove(&work)?;
    unpacked.sort();
    ensure!(
        unpacked.len() == names.len(),
        "{names:?} were packaged, and there are {unpacked:?}"
    );
    Ok(unpacked)
}

/// Makes `to` the same as `from`, without touching what is the same already.
fn sync(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    let mut kept = BTreeSet::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        kept.insert(entry.file_name());
        if source.is_dir() {
            sync(&source, &target)?;
        } else {
            write(&target, &fs::read(&source)?)?;
        }
    }
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if !kept.contains(&entry.file_name()) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Writes `file` unless it has these contents.
///
/// # Errors
/// It cannot be written.
pub fn write(file: &Path, contents: &[u8]) -> anyhow::Result<()> {
    if fs::read(file).ok().as_deref() != Some(contents) {
        fs::write(file, contents).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The files of the unpacked package in `directory`, by their paths in it.
///
/// # Errors
/// A directory cannot be read.
pub fn files(directory: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    fn walk(root: &Path, below: &Path, files: &mut BTreeSet<PathBuf>) -> anyhow::Result<()> {
        for entry in fs::read_dir(below)? {
            let path = entry?.path();
            if path.is_dir() {
                walk(root, &path, files)?;
            } else {
                files.insert(path.strip_prefix(root)?.to_owned());
            }
        }
        Ok(())
    }
    let mut files = BTreeSet::new();
    walk(directory, directory, &mut files)?;
    Ok(files)
}
