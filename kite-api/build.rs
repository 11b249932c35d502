//! Builds the web UI in `ui/` with the project's own tooling and embeds it.
//!
//! Everything happens in a copy below `OUT_DIR`: the source tree stays as it is,
//! as cargo asks. Where Node.js is missing, or npm fails, the crate builds all
//! the same, and the page at `/` says how to get the UI.

#![allow(
    clippy::print_stdout,
    reason = "it is how a build script talks to cargo"
)]

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// What the UI is built from; `src` and `public` are directories.
const SOURCES: [&str; 8] = [
    ".npmrc",
    "index.html",
    "package-lock.json",
    "package.json",
    "public",
    "src",
    "tsconfig.json",
    "vite.config.ts",
];

/// Oldest major version of Node.js that builds the UI.
const NODE: u32 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    for source in SOURCES {
        println!("cargo::rerun-if-changed=ui/{source}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=KITE_UI");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?);
    let wish = env::var("KITE_UI").unwrap_or_default();
    let dist = if wish == "off" {
        None
    } else {
        match build(&out.join("ui")) {
            Ok(dist) => Some(dist),
            Err(error) if wish == "required" => return Err(error),
            Err(error) => {
                // A warning is one line.
                let error = error.to_string().replace('\n', " | ");
                println!("cargo::warning=the web UI is not built: {error}");
                None
            }
        }
    };
    fs::write(out.join("ui.rs"), table(dist.as_deref())?)?;
    Ok(())
}

/// Builds the UI in `work` and gives the directory that holds it.
fn build(work: &Path) -> Result<PathBuf, Box<dyn Error>> {
    require_node()?;
    // As it is now: the sources may have moved since this was compiled.
    let ui = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("ui");
    let installed = work.join("node_modules/.kite-lock");
    let lock = fs::read(ui.join("package-lock.json"))?;
    for source in SOURCES {
        let (from, to) = (ui.join(source), work.join(source));
        if from.is_dir() {
            remove(&to)?;
        }
        copy(&from, &to)?;
    }
    // Packages are installed anew only when others are wanted.
    if fs::read(&installed).ok().as_ref() != Some(&lock) {
        let mut npm = Command::new(NPM);
        npm.args(["ci", "--omit=dev", "--ignore-scripts", "--prefer-offline"])
            .args(["--no-audit", "--no-fund", "--loglevel=error"]);
        run(npm.current_dir(work), "npm ci")?;
        fs::write(&installed, &lock)?;
    }
    let mut vite = Command::new("node");
    vite.args(["node_modules/vite/bin/vite.js", "build", "--logLevel=warn"]);
    run(vite.current_dir(work), "vite build")?;
    Ok(work.join("dist"))
}

#[cfg(windows)]
const NPM: &str = "npm.cmd";
#[cfg(not(windows))]
const NPM: &str = "npm";

fn require_node() -> Result<(), Box<dyn Error>> {
    let output = Command::new("node")
        .arg("--version")
        .output()
        .map_err(|_| format!("node is not on the PATH; install Node.js {NODE} or newer"))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let major: Option<u32> = version
        .trim_start_matches('v')
        .split('.')
        .next()
        .and_then(|major| major.parse().ok());
    if major.is_some_and(|major| major >= NODE) {
        return Ok(());
    }
    Err(format!("Node.js is {version}; install {NODE} or newer").into())
}

fn run(command: &mut Command, what: &str) -> Result<(), Box<dyn Error>> {
    let output = command
        .output()
        .map_err(|error| format!("{what} cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<_> = said
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let head = lines[..lines.len().min(12)].join("\n");
    Err(format!("{what} failed: {head}").into())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    // Not fs::copy: a read-only source (a vendored crate) would stay read-only.
    fs::write(to, fs::read(from)?)
}

/// The table of files that `src/page.rs` includes.
fn table(dist: Option<&Path>) -> Result<String, Box<dyn Error>> {
    let mut files = Vec::new();
    if let Some(dist) = dist {
        list(dist, &mut files)?;
    }
    files.sort();
    let mut text = String::from("&[\n");
    for file in &files {
        let Some(dist) = dist else { continue };
        let path = file
            .strip_prefix(dist)?
            .to_string_lossy()
            .replace('\\', "/");
        let file = file.to_string_lossy();
        let packed = ["br", "gz"].map(|suffix| {
            let packed = format!("{file}.{suffix}");
            if Path::new(&packed).is_file() {
                format!("Some(include_bytes!({packed:?}))")
            } else {
                "None".to_owned()
            }
        });
        writeln!(
            text,
            "File {{ path: {:?}, plain: include_bytes!({file:?}), brotli: {}, gzip: {} }},",
            format!("/{path}"),
            packed[0],
            packed[1],
        )?;
    }
    text.push_str("]\n");
    Ok(text)
}

/// The files to serve below `dir`, without their packed twins.
fn list(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else if !path
            .extension()
            .is_some_and(|suffix| suffix == "br" || suffix == "gz")
        {
            files.push(path);
        }
    }
    Ok(())
}
