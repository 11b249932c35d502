//! Commands that read and write text and bytes.

use std::fmt::Write as _;
use std::io;

use sha2::{Digest, Sha256};

use super::super::shell::Shell;
use super::super::stream::{CHUNK, Input, Io};
use super::{options, print};

pub(super) async fn echo(args: &[String], io: &Io) -> io::Result<u8> {
    let (newline, words) = match args.split_first() {
        Some((first, rest)) if first == "-n" => ("", rest),
        _ => ("\n", args),
    };
    io.print(&format!("{}{newline}", words.join(" "))).await?;
    Ok(0)
}

/// The named inputs; standard input for none and for `-`.
fn inputs(args: &[String], shell: &Shell, io: &Io) -> Vec<(String, Result<Input, String>)> {
    if args.is_empty() {
        return vec![("-".to_owned(), Ok(io.stdin.clone()))];
    }
    args.iter()
        .map(|name| match name.as_str() {
            "-" => (name.clone(), Ok(io.stdin.clone())),
            file => (name.clone(), shell.open_input(file)),
        })
        .collect()
}

pub(super) async fn cat(args: &[String], shell: &Shell, io: &Io) -> io::Result<u8> {
    let mut status = 0;
    for (_, input) in inputs(args, shell, io) {
        match input {
            Ok(input) => loop {
                let data = input.read(CHUNK).await?;
                if data.is_empty() {
                    break;
                }
                io.stdout.write(&data).await?;
            },
            Err(message) => {
                io.complain(&format!("cat: {message}")).await?;
                status = 1;
            }
        }
    }
    Ok(status)
}

/// A count with an optional binary suffix: `10`, `4K`, `100M`, `1G`.
fn parse_count(text: &str) -> Option<u64> {
    let (digits, factor) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (text.get(..at)?, 1 << 10),
        (at, 'm' | 'M') => (text.get(..at)?, 1 << 20),
        (at, 'g' | 'G') => (text.get(..at)?, 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

pub(super) async fn head(args: &[String], shell: &Shell, io: &Io) -> io::Result<u8> {
    let mut bytes = None;
    let mut lines = 10;
    let mut rest = args;
    while let Some((first, tail)) = rest.split_first() {
        let Some(option) = first.strip_prefix('-').filter(|o| !o.is_empty()) else {
            break;
        };
        let (kind, inline) = option.split_at(1);
        let (value, after) = if inline.is_empty() {
            (tail.first().map_or("", String::as_str), tail.get(1..))
        } else {
            (inline, Some(tail))
        };
        match (kind, parse_count(value)) {
            ("c", Some(count)) => bytes = Some(count),
            ("n", Some(count)) => lines = count,
            _ => {
                io.complain(&format!("head: cannot read the option '{first} {value}'"))
                    .await?;
                return Ok(1);
            }
        }
        rest = after.unwrap_or_default();
    }
    let mut status = 0;
    for (_, input) in inputs(rest, shell, io) {
        match input {
            Ok(input) => match bytes {
                Some(count) => head_bytes(&input, count, io).await?,
                None => head_lines(&input, lines, io).await?,
            },
            Err(message) => {
                io.complain(&format!("head: {message}")).await?;
                status = 1;
            }
        }
    }
    Ok(status)
}

async fn head_bytes(input: &Input, mut left: u64, io: &Io) -> io::Result<()> {
    while left > 0 {
        let data = input.read(usize::try_from(left).unwrap_or(CHUNK)).await?;
        if data.is_empty() {
            break;
        }
        left -= data.len() as u64;
        io.stdout.write(&data).await?;
    }
    Ok(())
}

async fn head_lines(input: &Input, mut left: u64, io: &Io) -> io::Result<()> {
    while left > 0 {
        let data = input.read(CHUNK).await?;
        if data.is_empty() {
            break;
        }
        let mut end = 0;
        for line in data.split_inclusive(|b| *b == b'\n') {
            end += line.len();
            left -= u64::from(line.ends_with(b"\n"));
            if left == 0 {
                break;
            }
        }
        io.stdout.write(data.get(..end).unwrap_or(&data)).await?;
    }
    Ok(())
}

pub(super) async fn wc(args: &[String], shell: &Shell, io: &Io) -> io::Result<u8> {
    let (flags, files) = match options(args, "lwc") {
        Ok(parsed) => parsed,
        Err(message) => {
            io.complain(&format!("wc: {message}")).await?;
            return Ok(1);
        }
    };
    let mut status = 0;
    for (name, input) in inputs(files, shell, io) {
        let input = match input {
            Ok(input) => input,
            Err(message) => {
                io.complain(&format!("wc: {message}")).await?;
                status = 1;
                continue;
            }
        };
        let (mut lines, mut words, mut bytes) = (0_u64, 0_u64, 0_u64);
        let mut in_word = false;
        loop {
            let data = input.read(CHUNK).await?;
            if data.is_empty() {
                break;
            }
            bytes += data.len() as u64;
            for byte in data {
                lines += u64::from(byte == b'\n');
                let blank = byte.is_ascii_whitespace();
                words += u64::from(!blank && !in_word);
                in_word = !blank;
            }
        }
        let mut line = String::new();
        for (flag, count) in [('l', lines), ('w', words), ('c', bytes)] {
            if flags.is_empty() || flags.contains(flag) {
                let space = if line.is_empty() { "" } else { " " };
                // Writing to a string cannot fail.
                let _ = write!(line, "{space}{count}");
            }
        }
        if name != "-" {
            let _ = write!(line, " {name}");
        }
        print(io, &line).await?;
    }
    Ok(status)
}

pub(super) async fn sha256sum(args: &[String], shell: &Shell, io: &Io) -> io::Result<u8> {
    let mut status = 0;
    for (name, input) in inputs(args, shell, io) {
        match input {
            Ok(input) => {
                let mut hasher = Sha256::new();
                loop {
                    let data = input.read(CHUNK).await?;
                    if data.is_empty() {
                        break;
                    }
                    hasher.update(&data);
                }
                let mut line = String::new();
                for byte in hasher.finalize() {
                    let _ = write!(line, "{byte:02x}");
                }
                print(io, &format!("{line}  {name}")).await?;
            }
            Err(message) => {
                io.complain(&format!("sha256sum: {message}")).await?;
                status = 1;
            }
        }
    }
    Ok(status)
}
