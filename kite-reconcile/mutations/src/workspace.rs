//! A copy of the workspace to break things in.

use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};

/// A copy of all files that git knows of or would take, in which a file can be
/// changed for a while.
pub struct Workspace {
    /// What was copied.
    source: PathBuf,
    /// The copy.
    pub root: PathBuf,
    /// Where it is built.
    pub target_dir: PathBuf,
}

impl Workspace {
    /// Copies the workspace at `source` to below its target directory, with other
    /// texts for some files. Only what differs from an earlier copy is written, so
    /// that little is built anew.
    pub fn copy(
        source: &Path,
        target_dir: Option<PathBuf>,
        texts: &BTreeMap<PathBuf, String>,
    ) -> anyhow::Result<Self> {
        let source = source
            .canonicalize()
            .with_context(|| format!("--workspace {}", source.display()))?;
        let below = source.join("target").join("mutations");
        // Not the workspace's own: cargo names what it builds by the path within
        // a workspace, and would take what is built here for the original.
        let target_dir = target_dir.unwrap_or_else(|| below.join("target"));
        fs::create_dir_all(&target_dir)?;
        let target_dir = target_dir.canonicalize()?;
        let root = below.join("workspace");
        fs::create_dir_all(&root)?;
        let copy = Self {
            source,
            root,
            target_dir,
        };
        let files = copy.files()?;
        for file in &files {
            if let Some(text) = texts.get(file) {
                copy.write(file, text.as_bytes())?;
                continue;
            }
            let wanted = fs::read(copy.source.join(file))
                .with_context(|| format!("read {}", file.display()))?;
            copy.write(file, &wanted)?;
        }
        copy.remove_all_but(&files)?;
        Ok(copy)
    }

    /// The text of a file of the copy.
    fn text(&self, file: &str) -> anyhow::Result<String> {
        let path = self.root.join(file);
        fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    }

    /// Changes a file of the copy until what is returned is dropped.
    pub fn put<'a>(&'a self, file: &'a str, text: &str) -> anyhow::Result<Changed<'a>> {
        let changed = Changed {
            workspace: self,
            file,
            original: self.text(file)?,
        };
        self.write(Path::new(file), text.as_bytes())?;
        Ok(changed)
    }

    fn write(&self, file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.root.join(file);
        match fs::read(&path) {
            Ok(there) if there == bytes => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent)?;
                }
            }
            Err(error) => return Err(error.into()),
        }
        fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))
    }

    /// What git knows of, or would take.
    fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let listed = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(&self.source)
            .output()
            .context("run git ls-files: git must be installed")?;
        ensure!(
            listed.status.success(),
            "git ls-files in {}: {}: the workspace must be a git checkout",
            self.source.display(),
            String::from_utf8_lossy(&listed.stderr)
        );
        let listed = String::from_utf8(listed.stdout).context("names of files in UTF-8")?;
        Ok(listed
            .split('\0')
            .filter(|name| !name.is_empty())
            .map(PathBuf::from)
            // Listed and deleted since.
            .filter(|file| self.source.join(file).is_file())
            .collect())
    }

    /// Removes sources that an earlier copy left: cargo would find their tests.
    fn remove_all_but(&self, files: &[PathBuf]) -> anyhow::Result<()> {
        let wanted: HashSet<PathBuf> = files.iter().map(|file| self.root.join(file)).collect();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if !wanted.contains(&path) {
                    fs::remove_file(&path)?;
                }
            }
        }
        Ok(())
    }
}

/// A changed file, which is put back when this is dropped.
#[must_use]
pub struct Changed<'a> {
    workspace: &'a Workspace,
    file: &'a str,
    original: String,
}

impl Drop for Changed<'_> {
    fn drop(&mut self) {
        // Should it fail, the next copy puts it right.
        let _ = self
            .workspace
            .write(Path::new(self.file), self.original.as_bytes());
    }
}
