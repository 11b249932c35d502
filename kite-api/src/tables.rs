//! Tables of `docs/api.md`: each stands between two comments, and is written from the code.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write as _;

use kite_identity::rule::{Proof, Rule, levels, proof};

use crate::{
    policy::{Access, AccountAction, Act, Action},
    vm_fields::{self, Edited, NAME, NAME_IS_FIXED, New},
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/api.md");

/// The page with the part of this name replaced.
fn with(page: &str, name: &str, fresh: &str) -> String {
    let (open, close) = (
        format!("<!-- generated: {name} -->\n"),
        "<!-- end of what is generated -->",
    );
    let (head, rest) = page.split_once(&open).expect(name);
    let (_, tail) = rest.split_once(close).expect(name);
    format!("{head}{open}\n{fresh}\n{close}{tail}")
}

/// What the tables say of an action.
struct Row {
    name: String,
    meaning: String,
    levels: String,
    /// The least scopes: to look at it, and to change it.
    scopes: [String; 2],
    proof: Proof,
}

/// Every action with its row: of accounts first, as everybody has one.
fn actions() -> Vec<Row> {
    fn row<A: Act>(action: A, rule: Rule) -> Row {
        let scope = |access| {
            let scope = action.scope(access);
            scope.map_or("never".to_owned(), |scope| format!("`{}`", scope.as_str()))
        };
        Row {
            name: format!("`{action:?}`"),
            meaning: meaning(rule),
            levels: levels(action).join(" | "),
            scopes: Access::ALL.map(scope),
            proof: proof(action),
        }
    }
    let accounts = AccountAction::ALL.into_iter().map(|it| row(it, it.rule()));
    let others = Action::ALL.into_iter().map(|it| row(it, it.rule()));
    accounts.chain(others).collect()
}

/// What an action is, as it stands in the middle of a line.
fn meaning(rule: Rule) -> String {
    let text = rule.meaning.trim().trim_end_matches('.');
    let (first, rest) = text.split_at(1);
    format!("{}{rest}", first.to_lowercase())
}

fn rights() -> String {
    let mut text = "| Action | own | of a ReadOnly | of a User | of a Manager | of an Admin |\n\
                    |---|---|---|---|---|---|\n"
        .to_owned();
    for row in actions() {
        let _ = writeln!(text, "| {}: {} | {} |", row.name, row.meaning, row.levels);
    }
    text
}

fn scopes() -> String {
    let mut text = "| Action | looking | changing |\n|---|---|---|\n".to_owned();
    for row in actions() {
        let _ = writeln!(text, "| {} | {} |", row.name, row.scopes.join(" | "));
    }
    text
}

fn proofs() -> String {
    let mut text = "| Action | asks for a proof |\n|---|---|\n".to_owned();
    for row in actions() {
        let when = match row.proof {
            Proof::Never => continue,
            Proof::OfOthers => "of others",
            Proof::Always => "always",
        };
        let _ = writeln!(text, "| {} | {when} |", row.name);
    }
    text
}

fn fields_of_vms() -> String {
    let mut text = "| Field | `POST vms` | `POST offers/{name}/claim` | `PATCH vms/{name}` | \
                    right to edit it |\n|---|---|---|---|---|\n"
        .to_owned();
    let _ = writeln!(
        text,
        "| `{NAME}` | required | required | {NAME_IS_FIXED} | |"
    );
    for field in vm_fields::all() {
        let [new, claimed] = match field.new {
            New::Sized => ["required", "the offer's"],
            New::Optional => ["optional"; 2],
            New::Alone => ["optional", "not with an offer"],
            New::Never => [""; 2],
        };
        let (edited, action) = match field.edit {
            Edited::Never(why) => (why, String::new()),
            Edited::By(action) if field.is_removable => {
                ("changed; null removes it", format!("`{action:?}`"))
            }
            Edited::By(action) => ("changed", format!("`{action:?}`")),
        };
        let name = field.name;
        let _ = writeln!(
            text,
            "| `{name}` | {new} | {claimed} | {edited} | {action} |"
        );
    }
    text
}

#[test]
fn the_tables_of_the_docs_are_those_of_the_code() {
    let docs = std::fs::read_to_string(PAGE).unwrap();
    let parts = [
        ("rights", rights()),
        ("least scopes", scopes()),
        ("proofs", proofs()),
        ("fields of VMs", fields_of_vms()),
    ];
    let fresh = parts
        .iter()
        .fold(docs.clone(), |page, (name, part)| with(&page, name, part));
    if std::env::var_os("KITE_BLESS").is_some() {
        std::fs::write(PAGE, &fresh).unwrap();
        return;
    }
    assert!(
        docs == fresh,
        "docs/api.md is stale: run `KITE_BLESS=1 cargo test -p kite-api --lib tables`"
    );
}
