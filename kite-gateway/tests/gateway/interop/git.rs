//! git over clients: a repository that is pushed into the VM and cloned from there.

use std::path::Path;
use std::process::Command;

use crate::interop::command_line::as_shell;
use crate::interop::lab::{Lab, fresh};
use crate::interop::process::Call;
use crate::interop::table::{Outcome, fine};

/// Pushes over `shell`, clones what came of it, and compares the hash of the commit,
/// which stands for all that is below it.
pub async fn over(lab: &Lab, name: &str, shell: &Command) -> Outcome {
    let at = lab.bed.path(&fresh("git"));
    let [here, there, back] = ["here", "there", "back"].map(|part| at.join(part));
    for directory in [&here, &there] {
        std::fs::create_dir_all(directory).map_err(|error| error.to_string())?;
    }
    std::fs::copy(lab.file(1), here.join("random")).map_err(|error| error.to_string())?;
    git(&here, &["init", "-q", "-b", "main"], None).await?;
    git(&here, &["add", "random"], None).await?;
    git(&here, &["commit", "-q", "-m", "Begin"], None).await?;
    git(&there, &["init", "-q", "--bare", "-b", "main"], None).await?;

    let url = format!("{name}@127.0.0.1:{}", there.display());
    git(&here, &["push", "-q", &url, "main"], Some(shell)).await?;
    let to = back.display().to_string();
    git(&at, &["clone", "-q", &url, &to], Some(shell)).await?;
    let pushed = git(&here, &["rev-parse", "HEAD"], None).await?;
    for (place, directory) in [("VM", &there), ("clone", &back)] {
        git(directory, &["fsck", "--full", "--strict"], None).await?;
        let found = git(directory, &["rev-parse", "HEAD"], None).await?;
        if found != pushed {
            return Err(format!("{place}: {found} instead of {pushed}"));
        }
    }
    fine()
}

/// What git says, with nobody's settings.
async fn git(at: &Path, arguments: &[&str], shell: Option<&Command>) -> Result<String, String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(at).args(arguments);
    for (name, value) in [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
    ] {
        git.env(name, value);
    }
    for who in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{who}_NAME"), "Ann");
        git.env(format!("GIT_{who}_EMAIL"), "ann@example.org");
    }
    if let Some(shell) = shell {
        git.env("GIT_SSH_COMMAND", as_shell(shell));
        // It would ask one that it does not know what it is.
        let openssh = shell.get_program() == "ssh";
        git.env("GIT_SSH_VARIANT", if openssh { "ssh" } else { "simple" });
        for (name, value) in shell.get_envs() {
            match value {
                Some(value) => git.env(name, value),
                None => git.env_remove(name),
            };
        }
    }
    let done = Call::new(git).succeed().await;
    let done = done.map_err(|why| format!("git {}: {why}", arguments[0]))?;
    Ok(done.stdout.trim().to_owned())
}
