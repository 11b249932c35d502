//! Writes the table of Kubernetes' Go types that the in-memory API server goes by:
//! `kite-fake/src/go_types/table.txt`.
//!
//! ```text
//! cargo run -p kite-go-types -- DIRECTORY > kite-fake/src/go_types/table.txt
//! ```
//!
//! `DIRECTORY` holds checkouts of `kubernetes/api`, `apimachinery`,
//! `apiextensions-apiserver` and `kube-aggregator`, each under its own name and all of
//! one release. Reads declarations alone, as gofmt writes them: a parser of all of Go
//! (such as tree-sitter's, which needs a C compiler) would know no more of a tag.

mod parse;
mod table;

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

/// The groups and versions of `kubernetes/api` that are served.
const GROUPS: [&str; 22] = [
    "admissionregistration/v1",
    "apidiscovery/v2",
    "apidiscovery/v2beta1",
    "apps/v1",
    "authentication/v1",
    "authorization/v1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "certificates/v1",
    "coordination/v1",
    "core/v1",
    "discovery/v1",
    "events/v1",
    "flowcontrol/v1",
    "networking/v1",
    "node/v1",
    "policy/v1",
    "rbac/v1",
    "resource/v1",
    "scheduling/v1",
    "storage/v1",
];

/// Other packages with kinds, as directory and name.
const OTHERS: [(&str, &str); 3] = [
    (
        "apiextensions-apiserver/pkg/apis/apiextensions/v1",
        "apiextensions.v1",
    ),
    (
        "kube-aggregator/pkg/apis/apiregistration/v1",
        "apiregistration.v1",
    ),
    ("apimachinery/pkg/apis/meta/v1", "meta.v1"),
];

/// Packages that those take types from.
const SHARED: [(&str, &str); 4] = [
    ("apimachinery/pkg/runtime", "runtime"),
    ("apimachinery/pkg/types", "types"),
    ("apimachinery/pkg/util/intstr", "intstr"),
    ("apimachinery/pkg/api/resource", "resource"),
];

const HEAD: &str = "\
# Kubernetes' types as Go declares them, written by kite-go-types: do not edit.
# A line with a name is a message; `map=atomic`: for server-side apply it is one value;
# `kind`: it is one, with an apiVersion.
# Its fields follow in Go's order: number in protobuf (0: not there), name in JSON
# (`.`: its fields are those of the message, `=`: the message is this list), type and
# what else is known. Types: `*` may be unset, `[]` list, `{}` map from strings; `raw` is
# any JSON, `any` what only JSON has. omitempty, omitzero: as in Go's tags; `go`: the
# field's name there, where it is not the capitalized one; `list` and `keys`: how
# server-side apply tells elements apart; `patch`, `merge`: how strategic merge patches do.
";

fn main() -> anyhow::Result<()> {
    let root = std::env::args_os()
        .nth(1)
        .map(PathBuf::from)
        .context("usage: kite-go-types DIRECTORY, which holds checkouts of kubernetes/api, apimachinery, apiextensions-apiserver and kube-aggregator")?;
    let groups = GROUPS.map(|path| (format!("api/{path}"), path.replace('/', ".")));
    let others = OTHERS.map(|(path, name)| (path.to_owned(), name.to_owned()));
    let served: Vec<_> = groups.into_iter().chain(others).collect();
    let shared = SHARED.map(|(path, name)| (path.to_owned(), name.to_owned()));
    let mut declared = BTreeMap::new();
    for (path, name) in served.iter().chain(&shared) {
        declared.extend(package(&root.join(path), name)?);
    }
    let names: Vec<String> = served.into_iter().map(|(_, name)| name).collect();
    let table = table::text(&declared, &names)?;
    std::io::stdout().write_all([HEAD, &table].concat().as_bytes())?;
    Ok(())
}

/// The declarations of the package `name` in `directory`.
fn package(directory: &Path, name: &str) -> anyhow::Result<BTreeMap<String, parse::Declaration>> {
    let mut found = BTreeMap::new();
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let is_source = file.ends_with(".go")
            && !file.ends_with("_test.go")
            && !file.ends_with(".pb.go")
            && !file.starts_with("zz_generated");
        if is_source {
            let text = fs::read_to_string(&path)?;
            found.extend(parse::file(name, &text));
        }
    }
    Ok(found)
}
