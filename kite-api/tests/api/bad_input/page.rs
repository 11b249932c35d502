//! `docs/bad-input.md`: the answers, as a table that is written by the walk.

use std::fmt::Write as _;

use serde_json::Value;

use super::cases::{Case, Place};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/bad-input.md");
/// Most requests that a row names.
const NAMED: usize = 4;

/// A row: what is wrong, its value, the answer and the requests that answer so.
type Row<'a> = (String, String, &'a str, Vec<&'a str>);

/// Compares the page with what was told, or writes it.
pub fn hold(told: &[(&Case, String)]) {
    let docs = std::fs::read_to_string(PAGE).unwrap();
    let (head, _) = docs.split_once("\n## ").unwrap_or((&docs, ""));
    let mut fresh = format!("{}\n", head.trim_end());
    let of = |is: fn(&Place) -> bool| rows(told.iter().filter(move |(it, _)| is(&it.place)));
    let parameters = of(|it| matches!(it, Place::Query(_)));
    table(&mut fresh, "Parameters", &parameters);
    let headers = of(|it| matches!(it, Place::Header(_)));
    table(&mut fresh, "Headers", &headers);
    let (nested, plain) = of(|it| matches!(it, Place::Body(_)))
        .into_iter()
        .partition::<Vec<_>, _>(|(place, ..)| place.contains(['.', '[']));
    table(&mut fresh, "Fields", &plain);
    table(&mut fresh, "Inside of fields", &nested);
    if std::env::var_os("KITE_BLESS").is_some() {
        std::fs::write(PAGE, &fresh).unwrap();
    }
    let docs = std::fs::read_to_string(PAGE).unwrap();
    assert!(
        docs == fresh,
        "docs/bad-input.md is stale: run `KITE_BLESS=1 cargo test -p kite-api --test api bad_input`"
    );
}

fn rows<'a>(told: impl Iterator<Item = &'a (&'a Case, String)>) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    for (case, message) in told {
        let place = case.place.name().to_owned();
        let wrong = shown(case);
        let is_it = |row: &&mut Row<'_>| row.0 == place && row.1 == wrong && row.2 == message;
        match rows.iter_mut().find(is_it) {
            Some(row) => row.3.push(&case.request),
            None => rows.push((place, wrong, message, vec![&case.request])),
        }
    }
    rows.sort();
    rows
}

fn shown(case: &Case) -> String {
    match (&case.place, &case.wrong) {
        (Place::Query(name), Value::Array(values)) => {
            let values: Vec<_> = values.iter().filter_map(Value::as_str).collect();
            format!("`{name}={}`", values.join(&format!("&{name}=")))
        }
        (Place::Query(name), Value::String(text)) if text.len() > 20 => {
            format!("`{name}=xxx…`, too long")
        }
        (Place::Query(name), wrong) => format!("`{name}={}`", wrong.as_str().unwrap_or_default()),
        (Place::Body(place), wrong) if super::is_secret(place) => {
            assert!(wrong.is_array(), "{case}");
            "`[\"…\"]`, not repeated".to_owned()
        }
        (Place::Header(name), wrong) => {
            format!("`{name}: {}`", wrong.as_str().unwrap_or_default())
        }
        (Place::Body(_), wrong) => format!("`{wrong}`"),
    }
}

fn table(text: &mut String, title: &str, rows: &[Row<'_>]) {
    let _ = write!(
        text,
        "\n## {title}\n\n| What | Wrong | `message` | In |\n|---|---|---|---|\n"
    );
    for (place, wrong, message, requests) in rows {
        let named: Vec<_> = requests
            .iter()
            .take(NAMED)
            .map(|it| format!("`{it}`"))
            .collect();
        let mut named = named.join(", ");
        if requests.len() > NAMED {
            let _ = write!(named, " and {} more", requests.len() - NAMED);
        }
        let message = message.replace('|', "\\|");
        let _ = writeln!(text, "| `{place}` | {wrong} | `{message}` | {named} |");
    }
}
