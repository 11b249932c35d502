//! `kite password-hash`.

use std::io::{BufRead as _, Write as _};

use anyhow::{Context as _, ensure};
use kite_core::password::PasswordHash;

pub(crate) fn run() -> anyhow::Result<()> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .context("no password on standard input")?;
    let password = line.trim_end_matches(['\r', '\n']);
    ensure!(
        !password.is_empty(),
        "the password is empty: give one line on standard input"
    );
    let hash = PasswordHash::create(password)?;
    writeln!(std::io::stdout().lock(), "{}", hash.as_str())?;
    Ok(())
}
