//! What the controller and the doors tell in English, the web page tells in each of
//! its languages: as long as it knows all of it.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fs, path::Path};

use kite_checks::{packages, root};

/// What is written like a reason in the controller's code for VMs, and is none: what
/// others report, and kinds.
const NO_REASONS: [&str; 27] = [
    "Accepted",
    "Copied",
    "DataVolume",
    "DataVolumesReady",
    "ErrImagePull",
    "ErrorPvcNotFound",
    "ErrorUnschedulable",
    "Failed",
    "False",
    "Halted",
    "HotMemoryChange",
    "HotVCPUChange",
    "ImagePullBackOff",
    "Lost",
    "Pending",
    "PendingPopulation",
    "PersistentVolumeClaim",
    "Provisioning",
    "ResolvedRefs",
    "Succeeded",
    "Terminating",
    "True",
    "UTC",
    "Unknown",
    "VM",
    "VirtualMachine",
    "WaitForFirstConsumer",
];

/// Knows conditions and reasons of others, and gives their words to be told in a
/// message: no condition of a VM is made in it.
const OF_OTHERS: &str = "blockers.rs";

/// A source without its unit tests.
fn source(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let end = text.find("#[cfg(test)]").unwrap_or(text.len());
    text[..end].to_owned()
}

/// All literals that are one word in CamelCase, but for what another text is to begin
/// or end with, which is a piece of one.
fn words(code: &str) -> BTreeSet<String> {
    let quotes = code.match_indices('"');
    let whole = quotes.filter(|(at, _)| !code[..*at].ends_with("s_with("));
    let after_quotes = whole.map(|(at, _)| &code[at + 1..]);
    let literals = after_quotes.filter_map(|rest| {
        let length = rest.find(|it: char| !it.is_ascii_alphanumeric())?;
        rest[length..].starts_with('"').then(|| &rest[..length])
    });
    let literals = literals.filter(|word| word.starts_with(|it: char| it.is_ascii_uppercase()));
    literals.map(str::to_owned).collect()
}

/// The keys of a table of the page, which have a line each.
fn keys(file: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("kite-api/ui/src").join(file)).unwrap();
    let keys = text.lines().filter_map(|line| {
        let (key, _) = line.strip_prefix("  \"")?.split_once("\": ")?;
        Some(key.to_owned())
    });
    keys.collect()
}

#[test]
fn each_reason_of_a_vm_has_words_in_each_language() {
    let reconciler = root().join("kite-reconcile/src");
    let mut code = source(&reconciler.join("error.rs"));
    let loop_of_all = root().join("kite-reconcile/runtime/src/plan/planner.rs");
    code.push_str(&source(&loop_of_all));
    for file in packages::files(&reconciler.join("vm")).unwrap() {
        let text = source(&reconciler.join("vm").join(&file));
        if file == Path::new(OF_OTHERS) {
            let makes = ["NewCondition", "Judgement", "Obstacle"];
            let made = makes.iter().find(|it| text.contains(**it));
            assert_eq!(
                made, None,
                "{OF_OTHERS} makes conditions: it is to be looked at"
            );
        } else if !file.to_string_lossy().contains("test") {
            code.push_str(&text);
        }
    }
    let said = words(&code);
    let stale: Vec<_> = NO_REASONS
        .iter()
        .filter(|it| !said.contains(**it))
        .collect();
    assert!(
        stale.is_empty(),
        "NO_REASONS has what no code says: {stale:?}"
    );
    let said = said.iter().filter(|it| !NO_REASONS.contains(&it.as_str()));
    let reasons: Vec<_> = said.collect();
    assert!(reasons.len() > 60, "{reasons:?}");
    for language in ["en", "ko"] {
        let keys = keys(&format!("i18n/reasons.{language}.ts"));
        // `reason.TYPE.REASON` is for one of its types alone.
        let has = |reason: &str| {
            let mut named = keys.iter().filter_map(|key| key.strip_prefix("reason."));
            named.any(|key| key.split_once('.').map_or(key, |(_, it)| it) == reason)
        };
        let missing: Vec<_> = reasons.iter().filter(|it| !has(it)).collect();
        assert!(
            missing.is_empty(),
            "i18n/reasons.{language}.ts has no words for {missing:?}: add them, or name in \
             NO_REASONS what is no reason of a condition"
        );
    }
}

/// What stands in quotes right behind each `before`, up to what is filled in.
fn told<'a>(code: &'a str, before: &str) -> Vec<&'a str> {
    let found = code.match_indices(before);
    let quoted = found.filter_map(|(at, _)| {
        let rest = code[at + before.len()..].trim_start().strip_prefix('"')?;
        let rest = &rest[..rest.find('"')?];
        Some(rest.split('{').next().unwrap_or(rest))
    });
    quoted.filter(|it| !it.is_empty()).collect()
}

#[test]
fn each_end_of_a_session_has_words() {
    let doors = [
        "kite-api/src/console/end.rs",
        "kite-api/src/consoles/socket.rs",
        "kite-api/src/consoles/watch.rs",
        "kite-api/src/connections/sweep.rs",
        "kite-gateway/src/kubernetes/connections/writer.rs",
        "kite-gateway/src/sessions.rs",
        "kite-gateway/src/user/progress.rs",
    ];
    let mut code: String = doors.map(|file| source(&root().join(file))).concat();
    let serving = source(&root().join("kite-gateway/src/user/serve.rs"));
    code.push_str(&serving[serving.find("async fn talk(").unwrap()..]);
    let mut ends = BTreeSet::new();
    for before in [
        "End::ended(",
        "End::ended(format!(",
        "End::session_over(",
        "End::timed_out(",
        "End::failed(",
        "End::failed(format!(",
        "Self::failed(format!(",
        "Self::new(1001,",
        "Self::new(4403,",
        "Self::new(4409,",
        "why:",
        "let why =",
        "conn.kill(&format!(",
        "return format!(",
        "return",
        "error => format!(",
        "} => format!(",
        "ConnectionError::Disconnected(_) => {",
        "+ config.login_deadline) => {",
        "() = shared.closing.cancelled() =>",
    ] {
        ends.extend(told(&code, before));
    }
    assert!(ends.len() > 20, "{ends:?}");
    let keys = keys("pages/sessions/ends.ts");
    let missing: Vec<_> = ends.iter().filter(|it| !keys.contains(**it)).collect();
    assert!(
        missing.is_empty(),
        "pages/sessions/ends.ts does not know {missing:?}"
    );
    let stale: Vec<_> = keys
        .iter()
        .filter(|it| !ends.contains(it.as_str()))
        .collect();
    assert!(
        stale.is_empty(),
        "nothing ends with {stale:?}, as pages/sessions/ends.ts has it"
    );
}

/// The page's table of what the API says when it refuses.
const REFUSALS: &str = "kite-api/ui/src/i18n/refusals.ko.ts";

/// What the table has between `begin` and the end of that part: key and words of each
/// line that has both.
fn refusals(begin: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join(REFUSALS)).unwrap();
    let (_, part) = text.split_once(begin).unwrap();
    let part = part.split("\n};").next().unwrap_or(part);
    let lines = part.lines().filter_map(|line| {
        let (key, words) = line.trim_start().strip_prefix('"')?.split_once("\": \"")?;
        Some((key.to_owned(), words.trim_end_matches("\",").to_owned()))
    });
    lines.collect()
}

/// A text with `{}` in place of whatever is filled in.
fn blanked(text: &str) -> String {
    let mut blank = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        blank.push_str(before);
        blank.push('{');
        let is_name = |it: &&str| !it.contains(|it: char| it.is_whitespace() || "\"{".contains(it));
        let name = after.split_once('}').filter(|(name, _)| is_name(name));
        if name.is_some() {
            blank.push('}');
        }
        rest = name.map_or(after, |(_, rest)| rest);
    }
    blank.push_str(rest);
    blank
}

/// All code that says something to who is refused, with one line for each text.
fn code_that_refuses() -> String {
    let mut code = String::new();
    for package in [
        "kite-api/src",
        "kite-api/rest/src",
        "kite-api/identity/src",
        "kite-core/src",
        "kite-reconcile/disks/src",
    ] {
        let dir = root().join(package);
        for file in packages::files(&dir).unwrap() {
            if file.extension().is_some_and(|it| it == "rs") {
                code.push_str(&source(&dir.join(file)));
            }
        }
    }
    // What fields that are one of several words expect is made of their schemas: it stands
    // in the table of what was answered.
    let answers = fs::read_to_string(root().join("docs/bad-input.md")).unwrap();
    code.push_str(&answers.replace('`', "\""));
    let lines = code.split("\\\n").map(str::trim_start);
    blanked(&lines.collect::<String>())
}

/// Whether the code has the words of `template` as a text, or at the end of one: the
/// API leaves the name of a field away at which it puts them.
fn is_said(code: &str, template: &str) -> bool {
    let blank = blanked(template);
    let words = blank.trim_matches(['{', '}']);
    let is_open = blank.ends_with('}');
    code.match_indices(words).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + words.len()..]);
        let begins = blank.starts_with('{') || before.ends_with(['"', ' ']);
        begins && (is_open || after.starts_with('"'))
    })
}

#[test]
fn what_is_refused_in_korean_is_what_the_api_says() {
    let code = code_that_refuses();
    let said = refusals("const said = {");
    assert!(said.len() > 100, "{said:?}");
    let stale: Vec<_> = said.iter().filter(|(it, _)| !is_said(&code, it)).collect();
    assert!(
        stale.is_empty(),
        "nothing says {stale:#?}, as {REFUSALS} has it"
    );
    let parts = refusals("const parts = {");
    assert!(parts.len() > 60, "{parts:?}");
    // They may be any part of what is said.
    let is_part = |it: &str| {
        let blank = blanked(it);
        code.contains(blank.trim_matches(['{', '}']))
    };
    let stale: Vec<_> = parts.iter().filter(|(it, _)| !is_part(it)).collect();
    assert!(
        stale.is_empty(),
        "nothing has {stale:#?} in what it says, as {REFUSALS} has it"
    );
}

#[test]
fn each_kind_of_refusal_has_words() {
    let code = source(&root().join("kite-api/rest/src/problem.rs"));
    let facts = code.split_once("fn facts(").unwrap().1;
    let kinds: BTreeSet<_> = told(facts, "=> (").into_iter().collect();
    let all = code.split_once("const ALL: [Self; ").unwrap().1;
    assert!(all.starts_with(&format!("{}]", kinds.len())), "{kinds:?}");
    let has: Vec<_> = refusals("const kinds = {");
    let known: BTreeSet<_> = has.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(known, kinds, "{REFUSALS}");
    let silent: Vec<_> = has.iter().filter(|(_, words)| words.is_empty()).collect();
    assert!(silent.is_empty(), "{silent:?}");
}
