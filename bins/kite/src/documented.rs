//! `docs/operating.md` says of the commands what they are, and all of it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use clap::{Arg, Command, CommandFactory as _};

use crate::Cli;

const DOCS: &str = include_str!("../../../docs/operating.md");

/// Cells, row by row; the second row is the line below the header.
type Table = Vec<Vec<String>>;

fn tables() -> Vec<Table> {
    let mut tables = Vec::new();
    let mut rows = Table::new();
    for line in DOCS.lines().chain([""]) {
        let inner = line
            .strip_prefix('|')
            .and_then(|line| line.strip_suffix('|'));
        if let Some(row) = inner {
            rows.push(row.split('|').map(|cell| cell.trim().to_owned()).collect());
        } else if !rows.is_empty() {
            tables.push(std::mem::take(&mut rows));
        }
    }
    tables
}

/// What stands between backticks.
fn codes(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn options(command: &Command) -> BTreeMap<&str, &Arg> {
    let options = command.get_arguments();
    options
        .filter_map(|it| Some((it.get_long()?, it)))
        .collect()
}

/// Those that a table of `command` has to name: all but what is told once for all
/// commands, and for an installation, which has a table by itself in `--help`.
fn own_options(cli: &Command, command: &Command) -> BTreeSet<String> {
    let manifests = cli.find_subcommand("manifests").unwrap();
    let elsewhere = options(manifests);
    let own = options(command).into_keys();
    own.filter(|it| *it != "context")
        .filter(|it| command.get_name() != "install" || !elsewhere.contains_key(it))
        .map(str::to_owned)
        .collect()
}

/// That what is written behind an option is what it takes.
fn takes(option: &Arg, value: &str) -> bool {
    if !option.get_action().takes_values() {
        return value.is_empty();
    }
    let mut names = option.get_value_names().unwrap_or_default().iter();
    names.any(|it| it.as_str() == value)
        || option
            .get_possible_values()
            .iter()
            .any(|it| it.get_name() == value)
}

#[test]
fn tables_of_options_have_the_options_of_their_command() {
    let cli = Cli::command();
    let mut seen = BTreeSet::new();
    for table in tables() {
        let Some(whose) = table[0][0].strip_prefix("Option") else {
            continue;
        };
        let whose = codes(whose).next();
        let whose = whose.unwrap_or_else(|| panic!("whose options are these? {table:?}"));
        // A process of its own has its options elsewhere.
        let Some(name) = whose.strip_prefix("kite ") else {
            continue;
        };
        let command = cli.find_subcommand(name).unwrap();
        let options = options(command);
        let mut told = BTreeSet::new();
        for row in &table[2..] {
            let code = codes(&row[0]).next().unwrap();
            let (option, value) = code.split_once([' ', '=']).unwrap_or((code, ""));
            let option = option.strip_prefix("--").unwrap();
            let known = options
                .get(option)
                .unwrap_or_else(|| panic!("kite {name} has no {code}"));
            assert!(takes(known, value), "kite {name}: {code}");
            assert!(told.insert(option.to_owned()), "kite {name}: {code} twice");
        }
        let own = own_options(&cli, command);
        let missing: Vec<_> = own.difference(&told).collect();
        assert!(missing.is_empty(), "kite {name}: {missing:?} are not told");
        assert!(seen.insert(name.to_owned()), "two tables of kite {name}");
    }
    let with_tables = ["backup", "install", "restore", "smoke"].map(str::to_owned);
    assert_eq!(seen, with_tables.into());
    assert!(DOCS.contains("`--context NAME`"), "it is in no table");
}

/// The numbers behind "The exit code is", if a command's help has that.
fn told_in_help(command: &Command) -> Option<BTreeSet<u8>> {
    let help = command.get_long_about()?.to_string();
    let (_, told) = help.split_once("exit code is")?;
    let words = told.split(|it: char| !it.is_ascii_digit());
    Some(words.filter_map(|it| it.parse().ok()).collect())
}

/// The codes of a row: of the columns where it has words, and of the last one, in
/// which each stands before its words.
fn told_in_row(header: &[String], row: &[String]) -> BTreeSet<u8> {
    let columns = header.iter().zip(row);
    let columns = columns
        .filter(|(_, cell)| !cell.is_empty())
        .filter_map(|(code, _)| code.parse().ok());
    let others = row.last().unwrap().split("; ");
    let others = others.filter_map(|it| it.split_once(':')?.0.parse().ok());
    columns.chain(others).collect()
}

#[test]
fn exit_codes_are_in_one_table_and_in_the_help() {
    let cli = Cli::command();
    let table = tables().into_iter().find(|it| it[0][0] == "Command");
    let table = table.unwrap();
    let mut rows = BTreeMap::new();
    for row in &table[2..] {
        for command in codes(&row[0]) {
            let name = command.strip_prefix("kite ").unwrap();
            let before = rows.insert(name.to_owned(), told_in_row(&table[0], row));
            assert!(before.is_none(), "kite {name} has two rows");
        }
    }
    let all = cli.get_subcommands().map(|it| it.get_name().to_owned());
    assert_eq!(
        rows.keys().cloned().collect::<BTreeSet<_>>(),
        all.collect::<BTreeSet<_>>()
    );
    let mut with_help = Vec::new();
    for command in cli.get_subcommands() {
        let name = command.get_name();
        if let Some(told) = told_in_help(command) {
            assert_eq!(told, rows[name], "kite {name}");
            with_help.push(name);
        } else if name != "host-sshd" {
            assert_eq!(rows[name], [0, 1].into(), "kite {name}");
        }
    }
    with_help.sort_unstable();
    let expected = [
        "audit",
        "backup",
        "doctor",
        "install",
        "restore",
        "smoke",
        "uninstall",
        "upgrade",
    ];
    assert_eq!(with_help, expected);
}

#[test]
fn all_commands_know_the_namespace_by_one_variable() {
    let cli = Cli::command();
    let mut with_namespace = 0;
    for command in cli.get_subcommands() {
        let Some(namespace) = options(command).remove("namespace") else {
            continue;
        };
        let variable = namespace.get_env().unwrap_or_default();
        assert_eq!(variable, "KITE_NAMESPACE", "kite {}", command.get_name());
        with_namespace += 1;
    }
    assert!(with_namespace > 5, "{with_namespace}");
}

#[test]
fn the_help_begins_with_what_kite_is() {
    let about = Cli::command().get_about().unwrap().to_string();
    assert!(
        about.starts_with("Kite turns a Kubernetes cluster"),
        "{about}"
    );
}
