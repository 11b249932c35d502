//! The tables of `docs/metrics.md`, and the controller's in `docs/operating.md`, have every metric that the code registers, and no
//! other.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fs, path::Path};

use kite_checks::{packages, root};

/// The string literals that follow each `call` in `text`, as the first argument.
fn arguments<'a>(text: &'a str, call: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    text.split(call).skip(1).filter_map(|rest| {
        let rest = rest.trim_start().strip_prefix('"')?;
        rest.split_once('"')
    })
}

/// The names of the metrics that a source registers, without what the kind of metric
/// puts behind them. Those of the runtime and of accounts begin as their user says, who is
/// Kite.
fn registered(text: &str, of_user: Option<&str>, names: &mut BTreeSet<String>) {
    let prefix = arguments(text, "sub_registry_with_prefix(").next();
    let prefix = prefix.map(|(prefix, _)| prefix);
    let prefix = prefix.or(of_user);
    let name = |name: &str| match prefix {
        Some(prefix) => format!("{prefix}_{name}"),
        None => name.to_owned(),
    };
    names.extend(arguments(text, "registry.register(").map(|(found, _)| name(found)));
    for (found, rest) in arguments(text, "registry.register_with_unit(") {
        let call = rest.split(");").next().unwrap_or_default();
        assert!(call.contains("Unit::Seconds"), "{found} has another unit");
        names.insert(format!("{}_seconds", name(found)));
    }
    names.extend(arguments(text, "encode_descriptor(").map(|(found, _)| name(found)));
    // Tables of name, help and number in one place, of gauges.
    if text.contains("encode_descriptor(") {
        let lines = text.lines();
        let whole = lines.filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\","));
        let is_name = |it: &&str| {
            it.bytes()
                .all(|byte| byte == b'_' || byte.is_ascii_lowercase())
        };
        let whole = whole.filter(is_name);
        names.extend(
            whole
                .filter(|it| of_user.is_some() || it.starts_with("kite_"))
                .map(name),
        );
    }
}

#[test]
fn the_tables_have_every_metric_and_no_other() {
    let root = root();
    let mut names = BTreeSet::new();
    let libraries = packages::LIBRARIES
        .iter()
        .map(|it| packages::folder(it).to_owned());
    let programs =
        ["kite-api", "kite-controller", "kite-gateway"].map(|it| Path::new("bins").join(it));
    for package in libraries.chain(programs) {
        let of_user = [("kite-runtime", "kite"), ("kite-identity", "kite_api")];
        let of_user = of_user
            .into_iter()
            .find(|(it, _)| package == packages::folder(it));
        let of_user = of_user.map(|(_, prefix)| prefix);
        let src = root.join(package).join("src");
        for file in packages::files(&src).unwrap() {
            if file.extension().is_some_and(|suffix| suffix == "rs") {
                let text = fs::read_to_string(src.join(file)).unwrap();
                registered(
                    text.split("#[cfg(test)]").next().unwrap(),
                    of_user,
                    &mut names,
                );
            }
        }
    }
    let pages = ["docs/metrics.md", "docs/operating.md"];
    let pages = pages.map(|page| fs::read_to_string(root.join(page)).unwrap());
    let documented: BTreeSet<String> = pages
        .concat()
        .lines()
        .filter_map(|line| line.strip_prefix("| `kite_")?.split('`').next())
        .map(|name| {
            let name = format!("kite_{name}");
            let name = name.strip_suffix("_total").unwrap_or(&name);
            name.strip_suffix("_info").unwrap_or(name).to_owned()
        })
        .collect();
    // So many, at least, are there: what reads the sources has not gone blind.
    assert!(names.len() > 30, "{names:?}");
    assert_eq!(documented, names);
}
