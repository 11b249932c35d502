//! `kite backup` and `kite restore`.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use kite_admin::{
    backup::{self, Backup, Entry, Only, Outcome, Scope, Selection},
    install::ObjectName,
};
use kite_core::names;
use kite_process::ClusterArgs;
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};
use serde_json::{Value, json};

use crate::{
    client::client,
    install::DryRun,
    output::{Lines, OnceFile, Output, bar, count, print_json},
};

/// What stands for standard input and output.
const STANDARD: &str = "-";

#[derive(Args)]
pub(crate) struct BackupOptions {
    /// File to write, which must not be there yet; - for standard output. It is JSON.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Also keep Secrets that nobody can make anew: the key by which passwords and second
    /// factors are sealed, the gateway's host key, secrets of sign-in providers, the
    /// certificate, and the keys of all VMs. Whoever has the file can then read all of that.
    #[arg(long)]
    with_secrets: bool,
    /// Namespace in which Kite runs.
    #[arg(long, env = "KITE_NAMESPACE", default_value = names::PLATFORM_NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// How it is told what was done.
    // Hidden, -o is here for who gives it a file as before: that is told where it is now.
    #[arg(long, short_alias = 'o', value_parser = OnceFile, default_value = "text")]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Writes all that is kept into a file that only its owner may read.
pub(crate) async fn backup(options: BackupOptions) -> anyhow::Result<ExitCode> {
    // Before anything is asked for.
    anyhow::ensure!(
        !is_yaml(&options.file),
        "{} would hold JSON, and not YAML: name it {}",
        options.file.display(),
        options.file.with_extension("json").display()
    );
    let to_standard = options.file == Path::new(STANDARD);
    anyhow::ensure!(
        !to_standard || options.output == Output::Text,
        "{STANDARD} and --output json would both be on standard output: name a file"
    );
    let mut lines = Lines::new(options.output);
    let client = client(&options.cluster).await?;
    let (namespace, with_secrets) = (&options.namespace, options.with_secrets);
    let kept = backup::take(&client, namespace, with_secrets, |reading| {
        let bar = bar(reading.done, reading.all);
        lines.progress(&format!("{bar} {}", reading.what));
    })
    .await?;
    let text = kept.to_text(jiff::Timestamp::now())?;
    if to_standard {
        write_out(&text)?;
    } else {
        write(&options.file, &text)?;
    }
    if options.output == Output::Json {
        print_json(&json!({
            "file": options.file,
            "withSecrets": kept.with_secrets,
            "withoutPassword": backup::without_password(&kept),
            "objects": kept.entries.iter().map(row).collect::<Vec<_>>(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    lines.line(&format!("{} objects are kept", kept.entries.len()));
    for user in backup::without_password(&kept) {
        lines.line(&format!(
            "WARNING: the password of {user} is NOT in it, since it is not there or changes all \
             the time: take another backup, or give {user} another password"
        ));
    }
    if !kept.with_secrets {
        lines.line(
            "Secrets are NOT in it: elsewhere passwords and second factors cannot be restored, \
             and the gateway and VMs get other keys. See --with-secrets",
        );
    }
    lines.line(
        "The disks of VMs are NOT in it: they need a backup of their own. See docs/operating.md",
    );
    Ok(ExitCode::SUCCESS)
}

/// What scripts are told of an object that is kept.
fn row(entry: &Entry) -> Value {
    let kind = entry.object.types.as_ref();
    let object = ObjectName {
        kind: kind.map(|it| it.kind.clone()).unwrap_or_default(),
        namespace: entry.object.metadata.namespace.clone(),
        name: entry.object.metadata.name.clone().unwrap_or_default(),
    };
    json!({ "object": object })
}

/// Whether people would take the file for YAML. The format is JSON to the letter, as its
/// checksum is of the text.
fn is_yaml(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    ["yaml", "yml"]
        .iter()
        .any(|it| extension.eq_ignore_ascii_case(it))
}

/// Writes to standard output, where nobody who ends to read has got all of it.
fn write_out(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.context("not all of the backup could be written to standard output, so there is none")
}

/// Writes a file as a whole or not at all, and over none.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let shown = path.display();
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{:016x}.part", rand::random::<u64>()));
    let part = PathBuf::from(part);
    let written = || -> std::io::Result<()> {
        let mut file = private(&part)?;
        let whole = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .and_then(|()| rename(&part, path));
        if whole.is_err() {
            let _ = fs::remove_file(&part);
        }
        whole
    };
    written().with_context(|| format!("{shown} cannot be written; name another file"))
}

/// A new file that only its owner may read.
fn private(path: &Path) -> std::io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

/// Renames a file, and takes no other one's place.
fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system can: there the name is taken by an empty file first.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            private(to)?;
            fs::rename(from, to).inspect_err(|_| {
                let _ = fs::remove_file(to);
            })
        }
        renamed => Ok(renamed?),
    }
}

#[derive(Args)]
pub(crate) struct RestoreOptions {
    /// File that kite backup wrote; - for standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Let the API server judge all of it, and store nothing.
    #[arg(long, value_enum, default_value = "none")]
    dry_run: DryRun,
    /// Make objects that are there and differ as they were kept; without it they are
    /// left alone, and told of.
    #[arg(long)]
    overwrite: bool,
    /// Leave VMs and their keys out, so that their disks can be brought back first:
    /// repeat it without this then.
    #[arg(long)]
    without_vms: bool,
    /// Bring back nothing but this object, with the names it holds and, for a VM, its
    /// keys: KIND/NAME, or KIND/NAMESPACE/NAME where there are several. May be repeated.
    #[arg(long, value_name = "KIND/NAME", conflicts_with = "without_vms")]
    only: Vec<Only>,
    /// Also bring back API tokens and invites of users that were in this cluster before,
    /// which may have been revoked since.
    #[arg(long)]
    with_tokens: bool,
    /// Namespace in which Kite runs; a backup of another one is refused.
    #[arg(long, env = "KITE_NAMESPACE", default_value = names::PLATFORM_NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// Seconds that the controller may take for a user's namespace.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
    /// How it is told what was done.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Brings back what a file has. The exit code is 0 if all of it is back, and 3 if
/// something is not.
pub(crate) async fn restore(options: RestoreOptions) -> anyhow::Result<ExitCode> {
    let shown = options.file.display().to_string();
    let text = read(&options.file).with_context(|| format!("{shown} cannot be read"))?;
    let kept = Backup::of_text(&text).with_context(|| shown.clone())?;
    anyhow::ensure!(
        kept.namespace == options.namespace,
        "{shown} is of an installation in the namespace {:?}, and --namespace is {:?}: if Kite \
         runs there in this cluster, too, and you trust the file, repeat this with --namespace {}",
        kept.namespace,
        options.namespace,
        kept.namespace
    );
    let only = (!options.only.is_empty())
        .then(|| Selection::of(&kept, &options.only))
        .transpose()
        .with_context(|| shown.clone())?;
    let client = client(&options.cluster).await?;
    backup::require_installed(&client).await?;
    let how = backup::Options {
        dry_run: options.dry_run == DryRun::Server,
        overwrite: options.overwrite,
        with_tokens: options.with_tokens,
        scope: match only {
            Some(only) => Scope::Only(only),
            None if options.without_vms => Scope::WithoutVms,
            None => Scope::All,
        },
        timeout: Duration::from_secs(options.timeout),
    };
    let mut told = Told {
        lines: Lines::new(options.output),
        all: kept.entries.len(),
        rows: Vec::new(),
        not_back: 0,
    };
    backup::restore(&client, &kept, &how, |object, outcome| {
        told.of(object, outcome);
    })
    .await;
    told.end(&how, options.output)?;
    Ok(if told.not_back == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(3)
    })
}

fn read(path: &Path) -> std::io::Result<String> {
    if path != Path::new(STANDARD) {
        return fs::read_to_string(path);
    }
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

/// Tells people line by line, and scripts all of it at the end.
struct Told {
    lines: Lines,
    all: usize,
    rows: Vec<Value>,
    not_back: usize,
}

impl Told {
    fn of(&mut self, object: &ObjectName, outcome: &Outcome) {
        let mut row = json!({ "object": object });
        if let (Some(row), Ok(Value::Object(outcome))) =
            (row.as_object_mut(), serde_json::to_value(outcome))
        {
            row.extend(outcome);
        }
        self.rows.push(row);
        if !outcome.is_back() {
            self.not_back += 1;
        }
        match outcome {
            Outcome::Created => self.lines.line(&format!("created      {object}")),
            Outcome::Overwritten => self.lines.line(&format!("overwritten  {object}")),
            Outcome::Unchanged => {}
            Outcome::Differs { fields } => self.lines.line(&format!(
                "differs      {object} is left as it is (--overwrite): {}",
                fields.join(", ")
            )),
            Outcome::Skipped { why } => {
                self.lines.line(&format!("skipped      {object}: {why}"));
            }
            Outcome::Removed { why } => {
                self.lines.line(&format!("removed      {object}: {why}"));
            }
            Outcome::Failed { why, remedy } => self.lines.line(&format!(
                "FAILED       {object}: {why}\n             -> {remedy}"
            )),
        }
        let bar = bar(self.rows.len(), self.all);
        self.lines.progress(&format!("{bar} {object}"));
    }

    fn end(&mut self, how: &backup::Options, output: Output) -> anyhow::Result<()> {
        if output == Output::Json {
            print_json(&json!({ "objects": self.rows }))?;
            return Ok(());
        }
        let count = |change: &str| count(&self.rows, change);
        let summary = format!(
            "{} objects: {} created, {} overwritten, {} as they were kept, {} not back",
            self.rows.len(),
            count("created"),
            count("overwritten"),
            count("unchanged"),
            self.not_back
        );
        self.lines.line(&summary);
        let is_lost =
            |row: &&Value| row["object"]["kind"] == "KitePassword" && row["change"] == "failed";
        let lost = self.rows.iter().filter(is_lost).count();
        if lost > 0 {
            self.lines.line(&format!(
                "{lost} passwords are not back, and their users cannot sign in with them: an \
                 administrator gives each another one on the page of users. Where none can sign \
                 in, the token in the Secret {} that the installation left makes one, or write \
                 what kite password-hash prints into spec.passwordHash of an administrator's \
                 KiteUser",
                names::BOOTSTRAP_SECRET
            ));
        }
        let touches = |name: &str| {
            let mut rows = self.rows.iter();
            rows.any(|row| {
                row["object"]["name"] == name
                    && (row["change"] == "created" || row["change"] == "overwritten")
            })
        };
        let is_key_new = touches(names::GATEWAY_HOST_KEY_SECRET);
        if how.dry_run {
            self.lines
                .line("Nothing was written: the above is what would be");
        } else if is_key_new {
            self.lines.line(
                "The gateway takes its host key when it starts: kubectl -n NAMESPACE rollout \
                 restart deploy/kite-gateway",
            );
        }
        Ok(())
    }
}
