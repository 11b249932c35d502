//! Data travels one way: no module of a crate imports another that, by whatever way, imports
//! it. So whoever draws a crate's arrows from its `lib.rs` is right.
#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use kite_checks::{packages, root};

/// Which modules, right below the root of a crate, each of them imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Loops that are known: the gateway's connections and the list of them.
const KNOWN: [(&str, &[&str]); 1] = [("kite-gateway", &["sessions", "user"])];

/// The module right below the root that a file is part of; none of the root itself.
fn module_of(file: &Path) -> Option<String> {
    let first = file.iter().next()?.to_str()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (!["lib", "main"].contains(&name)).then(|| name.to_owned())
}

/// The code of a file, without comments, and without tests at its end.
fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
    let lines = code.lines().map(|line| line.split("//").next().unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

/// The names that follow each `crate::` in the code: one, or those of a group.
fn names_in(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let Some(group) = rest.strip_prefix('{') else {
            names.extend(name_at(rest));
            continue;
        };
        let (mut depth, mut is_start) = (0, true);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => is_start = true,
                c if is_start && !c.is_whitespace() => {
                    names.extend(name_at(&group[at..]));
                    is_start = false;
                }
                _ => {}
            }
        }
    }
    names
}

fn name_at(text: &str) -> Option<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

fn imports(src: &Path) -> Imports {
    let mut imports = Imports::new();
    for file in packages::files(src).unwrap() {
        let is_code = file.extension().is_some_and(|it| it == "rs");
        let is_test = file.to_string_lossy().contains("tests");
        let Some(module) = module_of(&file).filter(|_| is_code && !is_test) else {
            continue;
        };
        let text = fs::read_to_string(src.join(&file)).unwrap();
        let names = names_in(&code_of(&text));
        imports.entry(module).or_default().extend(names);
    }
    let modules: BTreeSet<_> = imports.keys().cloned().collect();
    for (module, names) in &mut imports {
        names.retain(|name| name != module && modules.contains(name));
    }
    imports
}

/// All that a module imports, and what that imports.
fn reached<'a>(imports: &'a Imports, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&str> = imports[from].iter().map(String::as_str).collect();
    while let Some(module) = left.pop() {
        if reached.insert(module) {
            left.extend(imports[module].iter().map(String::as_str));
        }
    }
    reached
}

/// The modules that reach themselves.
fn in_loops(imports: &Imports) -> Vec<&str> {
    let modules = imports.keys().map(String::as_str);
    modules
        .filter(|module| reached(imports, module).contains(module))
        .collect()
}

#[test]
fn no_module_calls_back_up() {
    let programs = ["admin", "process", "consoles", "host-sshd", "kite"];
    let libraries = packages::LIBRARIES.map(|it| (it, packages::folder(it).to_owned()));
    let programs = programs.map(|it| (it, Path::new("bins").join(it)));
    let (mut count, mut wrong) = (0, Vec::new());
    for (name, folder) in libraries.into_iter().chain(programs) {
        let imports = imports(&root().join(folder).join("src"));
        count += imports.len();
        let known = KNOWN.iter().find(|(of, _)| *of == name);
        let known = known.map_or(&[][..], |(_, modules)| modules);
        let loops = in_loops(&imports);
        if loops != known {
            wrong.push(format!("{name}: {loops:?}, and known are {known:?}"));
        }
    }
    assert!(wrong.is_empty(), "loops of imports: {wrong:#?}");
    assert!(count > 250, "{count} modules");
}

#[test]
fn a_loop_is_found_however_long_it_is() {
    let of = |pairs: &[(&str, &str)]| -> Imports {
        let mut imports = Imports::new();
        for (from, to) in pairs {
            imports.entry((*to).to_owned()).or_default();
            let names = imports.entry((*from).to_owned()).or_default();
            names.insert((*to).to_owned());
        }
        imports
    };
    assert!(in_loops(&of(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    let long = of(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]);
    assert_eq!(in_loops(&long), ["a", "b", "c"]);

    let code = code_of(
        "use crate::{\n    one::{self, crate_of},\n    two,\n};\n\
         fn it() { crate::three::go(); } // crate::four\n\
         #[cfg(test)]\nmod tests { use crate::five; }\n",
    );
    let names: Vec<_> = names_in(&code).into_iter().collect();
    assert_eq!(names, ["one", "three", "two"]);
}
