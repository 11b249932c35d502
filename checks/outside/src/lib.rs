//! A workspace outside of this one, whose members are unpacked packages and which
//! has Kite's crates from nowhere else.
//!
//! It is built in this workspace's target directory and takes what is built there of
//! other projects' crates. cargo takes that only where every feature is the same, and
//! a part of the workspace asks for fewer than all of it; so the member `features`
//! asks for those that the whole workspace has.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;

use kite_checks::packages::{LIBRARIES, write};

/// The member that asks for the features of the whole workspace.
const FEATURES: &str = "features";

/// See the module.
pub struct Outside {
    directory: PathBuf,
    target: PathBuf,
}

impl Outside {
    /// Makes the workspace in `directory`, with the unpacked packages `members`, to be
    /// built in `target`.
    ///
    /// # Errors
    /// A file cannot be read or written, or a member is missing.
    pub fn new(directory: &Path, members: &[String], target: &Path) -> anyhow::Result<Self> {
        let root = kite_checks::root();
        let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
        let mut text = format!(
            "[workspace]\nresolver = \"3\"\nmembers = {:?}\n\n[patch.crates-io]\n",
            members
                .iter()
                .map(String::as_str)
                .chain([FEATURES])
                .collect::<Vec<_>>(),
        );
        for name in LIBRARIES {
            let member = members
                .iter()
                .find(|member| {
                    member
                        .strip_prefix(name)
                        .is_some_and(|rest| rest.starts_with("-0") || rest.starts_with("-1"))
                })
                .with_context(|| format!("{name} is not among {members:?}"))?;
            writeln!(text, "{name} = {{ path = {member:?} }}")?;
        }
        // What is built with other settings is not the same. Nobody debugs these members,
        // though, and all else is without debug information anyway.
        let profiles = manifest
            .find("[profile.dev]")
            .context("the workspace has no [profile.dev]")?;
        let profiles =
            manifest[profiles..].replacen("debug = \"line-tables-only\"", "debug = false", 1);
        write!(text, "\n{profiles}")?;
        write(&directory.join("Cargo.toml"), text.as_bytes())?;
        fs::copy(root.join("Cargo.lock"), directory.join("Cargo.lock"))?;

        let features = directory.join(FEATURES);
        fs::create_dir_all(features.join("src"))?;
        write(&features.join("src/lib.rs"), b"//! Nothing.\n")?;
        write(
            &features.join("Cargo.toml"),
            features_manifest()?.as_bytes(),
        )?;
        Ok(Self {
            directory: directory.to_owned(),
            target: target.to_owned(),
        })
    }

    /// Runs `cargo command` for `packages`, with `arguments` after them, and gives what
    /// it prints.
    ///
    /// # Errors
    /// Cargo fails, with all that it printed.
    pub fn cargo(
        &self,
        command: &str,
        packages: &[&str],
        arguments: &[&str],
    ) -> anyhow::Result<String> {
        kite_checks::output(&mut self.command(command, packages, arguments))
    }

    /// The same, to be run.
    pub fn command(&self, command: &str, packages: &[&str], arguments: &[&str]) -> Command {
        let mut cargo = kite_checks::cargo(&self.directory);
        cargo
            .args([command, "--offline", "--target-dir"])
            .arg(&self.target);
        for package in packages.iter().chain([&FEATURES]) {
            cargo.args(["--package", package]);
        }
        cargo.args(arguments);
        cargo
    }

    /// A program that `cargo build` has built.
    pub fn program(&self, name: &str) -> Command {
        let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
        Command::new(self.target.join("debug").join(name))
    }
}

/// The manifest of [`FEATURES`]: all crates of other projects, with the features that
/// the whole workspace, its tests included, has of them.
fn features_manifest() -> anyhow::Result<String> {
    // Macros run on the host, and bring with them what they are made of; the rest is
    // what is linked.
    let mut crates = tree(&["--edges", "normal,dev,no-proc-macro"])?;
    crates.extend(
        tree(&["--edges", "normal,dev,build"])?
            .into_iter()
            .filter(|line| line.contains("(proc-macro)")),
    );
    let mut manifest = format!(
        "[package]\nname = {FEATURES:?}\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n[dependencies]\n"
    );
    for line in crates {
        let (name, rest) = line
            .split_once(" v")
            .with_context(|| format!("cargo tree: {line}"))?;
        let (rest, features) = rest
            .split_once('|')
            .with_context(|| format!("cargo tree: {line}"))?;
        let version = rest.split(' ').next().unwrap_or(rest);
        // Several versions of one crate need names of their own.
        let key: String = format!("{name}-{version}")
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '-' {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        let features: Vec<_> = features
            .split(',')
            .filter(|feature| !feature.is_empty())
            .collect();
        writeln!(
            manifest,
            "{key} = {{ package = {name:?}, version = \"={version}\", default-features = false, features = {features:?} }}"
        )?;
    }
    Ok(manifest)
}

/// Lines of `cargo tree` that are of other projects' crates: `name vVERSION|features`.
fn tree(arguments: &[&str]) -> anyhow::Result<BTreeSet<String>> {
    let mut cargo = kite_checks::cargo(&kite_checks::root());
    cargo.args(["tree", "--workspace", "--offline", "--prefix", "none"]);
    let said = kite_checks::output(cargo.args(["--format", "{p}|{f}"]).args(arguments))?;
    // What is of this workspace has its path.
    let foreign = said
        .lines()
        .filter(|line| !line.contains(" (/") && !line.contains(":\\"));
    Ok(foreign
        // Whose dependencies were listed before.
        .map(|line| line.strip_suffix(" (*)").unwrap_or(line))
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect())
}
