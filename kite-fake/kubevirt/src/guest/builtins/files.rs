//! Commands that work on the disk.

use std::io;

use super::super::home::{FsError, Kind, Open, Stat};
use super::super::path::AbsPath;
use super::super::shell::Shell;
use super::super::stream::{CHUNK, Io};
use super::{options, print};

/// Runs `each` for every operand and complains where it fails.
async fn for_each(
    command: &str,
    names: &[String],
    io: &Io,
    mut each: impl FnMut(&str) -> Result<(), String>,
) -> io::Result<u8> {
    if names.is_empty() {
        io.complain(&format!("{command}: missing operand")).await?;
        return Ok(1);
    }
    let mut status = 0;
    for name in names {
        if let Err(message) = each(name) {
            io.complain(&format!("{command}: {message}")).await?;
            status = 1;
        }
    }
    Ok(status)
}

async fn bad_option(command: &str, message: &str, io: &Io) -> io::Result<u8> {
    io.complain(&format!("{command}: {message}")).await?;
    Ok(2)
}

fn long(name: &str, stat: &Stat, user: &str) -> String {
    let kind = match stat.kind {
        Kind::Dir => 'd',
        Kind::File => '-',
    };
    let bits: String = (0..9)
        .map(|i| {
            let set = stat.mode & (0o400 >> i) != 0;
            if set { ['r', 'w', 'x'][i % 3] } else { '-' }
        })
        .collect();
    let when = jiff::Timestamp::from_second(i64::from(stat.mtime))
        .map(|t| t.strftime("%b %e %H:%M").to_string())
        .unwrap_or_default();
    format!(
        "{kind}{bits} 1 {user} {user} {:>9} {when} {name}",
        stat.size
    )
}

pub(super) async fn ls(args: &[String], shell: &Shell, io: &Io) -> io::Result<u8> {
    let (flags, names) = match options(args, "la1hF") {
        Ok(parsed) => parsed,
        Err(message) => return bad_option("ls", &message, io).await,
    };
    let here = [".".to_owned()];
    let names = if names.is_empty() { &here } else { names };
    let user = &shell.machine.user;
    let mut status = 0;
    for name in names {
        let found = shell.path(name).and_then(|path| {
            let stat = shell
                .machine
                .disk
                .stat(&path)
                .map_err(|e| describe(name, e))?;
            match stat.kind {
                Kind::File => Ok(vec![(name.clone(), stat)]),
                Kind::Dir => shell
                    .machine
                    .disk
                    .list(&path)
                    .map_err(|e| describe(name, e)),
            }
        });
        match found {
            Ok(entries) => {
                for (entry, stat) in entries {
                    if entry.starts_with('.') && entry != *name && !flags.contains('a') {
                        continue;
                    }
                    let line = if flags.contains('l') {
                        long(&entry, &stat, user)
                    } else {
                        entry
                    };
                    print(io, &line).await?;
                }
            }
            Err(message) => {
                io.complain(&format!("ls: cannot access {message}")).await?;
                status = 2;
            }
        }
    }
    Ok(status)
}

fn describe(name: &str, error: FsError) -> String {
    format!("'{name}': {error}")
}

pub(super) async fn cd(args: &[String], shell: &mut Shell, io: &Io) -> io::Result<u8> {
    let home = shell.machine.home_dir().to_string();
    let name = args.first().unwrap_or(&home).clone();
    let target = shell
        .path(&name)
        .and_then(|path| match shell.machine.disk.stat(&path) {
            Ok(stat) if stat.kind == Kind::Dir => Ok(path),
            Ok(_) => Err(format!("{name}: {}", FsError::NotADirectory)),
            Err(e) => Err(format!("{name}: {e}")),
        });
    match target {
        Ok(path) => {
            shell.set_var("PWD", path.to_string());
            shell.cwd = path;
            Ok(0)
        }
        Err(message) => {
            io.complain(&format!("cd: {message}")).await?;
            Ok(1)
        }
    }
}

pub(super) async fn mkdir(args: &[String], shell: &Shell, io: &Io) -> io::Result<u8> {
    let (flags, names) = match options(args, "p") {
        Ok(parsed) => parsed,
        Err(message) => return bad_option("mkdir", &message, io).await,
    };
    for_each("mkdir", names, io, |name| {
        let path = shell.path(name)?;
        let disk = &shell.machine.disk;
        if flags.contains('p') {
            disk.create_dir_all(&path)
        } else {
            disk.create_dir(&path, 0o755)
        }
        .map_err(|e| format!("cannot create directory {}", describe(name, e)))
    })
    .await
}

pub(super) async fn rm(args: &[String], shell: &Shell, io: &Io) -> io::Result<u8> {
    let (flags, names) = match options(args, "rRf") {
        Ok(parsed) => parsed,
        Err(message) => return bad_option("rm", &message, io).await,
    };
    let (recursive, force) = (flags.contains(['r', 'R']), flags.contains('f'));
    if force && names.is_empty() {
        return Ok(0);
    }
    for_each("rm", names, io, |name| {
        let path = shell.path(name)?;
        let disk = &shell.machine.disk;
        let result = if recursive {
            disk.remove_all(&path)
        } else {
            disk.remove_file(&path)
        };
        match result {
            Err(FsError::NotFound) if force => Ok(()),
            other => other.map_err(|e| format!("cannot remove {}", describe(name, e))),
        }
    })
    .await
}

/// Where `name` lands when it is moved or copied to `target`.
fn landing(shell: &Shell, name: &str, target: &str) -> Result<AbsPath, String> {
    let path = shell.path(target)?;
    match shell.machine.disk.stat(&path) {
        Ok(stat) if stat.kind == Kind::Dir => {
            let from = shell.path(name)?;
            from.name()
                .and_then(|last| path.join(last))
                .ok_or_else(|| describe(target, FsError::InvalidName))
        }
        _ => Ok(path),
    }
}

pub(super) async fn mv(args: &[String], shell: &Shell, io: &Io) -> io::Result<u8> {
    let Some((target, names)) = args.split_last() else {
        return bad_option("mv", "missing operand", io).await;
    };
    for_each("mv", names, io, |name| {
        let to = landing(shell, name, target)?;
        shell
            .machine
            .disk
            .rename(&shell.path(name)?, &to, true)
            .map_err(|e| format!("cannot move {}", describe(name, e)))
    })
    .await
}

pub(super) async fn cp(args: &[String], shell: &Shell, io: &Io) -> io::Result<u8> {
    let (flags, operands) = match options(args, "rRp") {
        Ok(parsed) => parsed,
        Err(message) => return bad_option("cp", &message, io).await,
    };
    let recursive = flags.contains(['r', 'R']);
    let Some((target, names)) = operands.split_last() else {
        return bad_option("cp", "missing operand", io).await;
    };
    for_each("cp", names, io, |name| {
        let from = shell.path(name)?;
        let to = landing(shell, name, target)?;
        if from.contains(&to) {
            return Err(format!("cannot copy '{name}' into itself"));
        }
        copy(shell, &from, &to, recursive).map_err(|e| format!("cannot copy {}", describe(name, e)))
    })
    .await
}

fn copy(shell: &Shell, from: &AbsPath, to: &AbsPath, recursive: bool) -> Result<(), FsError> {
    let disk = &shell.machine.disk;
    let stat = disk.stat(from)?;
    match stat.kind {
        Kind::Dir if !recursive => return Err(FsError::IsADirectory),
        Kind::Dir => {
            disk.create_dir_all(to)?;
            for (entry, _) in disk.list(from)? {
                let source = from.join(&entry).ok_or(FsError::InvalidName)?;
                let copy_to = to.join(&entry).ok_or(FsError::InvalidName)?;
                copy(shell, &source, &copy_to, true)?;
            }
        }
        Kind::File => {
            let source = disk.open(from, Open::default())?;
            let target = disk.open(
                to,
                Open {
                    create: true,
                    exclusive: false,
                    truncate: true,
                },
            )?;
            let mut offset = 0;
            loop {
                let data = source.read_at(offset, CHUNK);
                if data.is_empty() {
                    break;
                }
                target.append(&data)?;
                offset += data.len() as u64;
            }
        }
    }
    disk.set_stat(to, Some(stat.mode), None)
}

pub(super) async fn touch(args: &[String], shell: &Shell, io: &Io) -> io::Result<u8> {
    for_each("touch", args, io, |name| {
        let path = shell.path(name)?;
        let disk = &shell.machine.disk;
        match disk.open(
            &path,
            Open {
                create: true,
                ..Open::default()
            },
        ) {
            Ok(_) | Err(FsError::IsADirectory) => {}
            Err(e) => return Err(format!("cannot touch {}", describe(name, e))),
        }
        disk.set_stat(&path, None, Some(super::super::file::now()))
            .map_err(|e| describe(name, e))
    })
    .await
}
