//! What must hold of the repository as a whole, as tests; nothing here is part of
//! Kite.
//!
//! | Module | What |
//! |---|---|
//! | [`documents`] | what people read, and where its links lead |
//! | [`packages`] | the library crates as a registry would have them |

pub mod documents;
pub mod packages;

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// cargo in `directory`, as a shell would start it: without what cargo tells a test
/// of itself, by which build scripts would be run anew.
pub fn cargo(directory: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(directory);
    for (name, _) in std::env::vars_os() {
        let of_a_package = |name: &str| {
            name.starts_with("CARGO_PKG_")
                || name.starts_with("CARGO_MANIFEST_")
                || name.starts_with("CARGO_BIN_")
                || matches!(
                    name,
                    "CARGO_CRATE_NAME" | "CARGO_PRIMARY_PACKAGE" | "CARGO_TARGET_TMPDIR"
                )
        };
        if name.to_str().is_some_and(of_a_package) {
            command.env_remove(name);
        }
    }
    command.env_remove("LD_LIBRARY_PATH");
    command
}

/// Runs `command` to its end and gives its standard output.
///
/// # Errors
/// It cannot be run, or fails: then with all that it printed.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect();
    let words = words.join(" ");
    let output = command.output().with_context(|| format!("run {words}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{words}: {}\n{said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(said)
}
