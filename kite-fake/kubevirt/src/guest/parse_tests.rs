#![allow(clippy::unwrap_used)]

use super::*;

fn text(word: &Word) -> String {
    word.pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(t) => t.clone(),
            Piece::Var { name, quoted } => format!("<{name}{}>", if *quoted { "!" } else { "" }),
            Piece::Home => "<~>".to_owned(),
        })
        .collect()
}

fn words(line: &str) -> Vec<String> {
    parse(line).unwrap()[0].1[0]
        .words
        .iter()
        .map(text)
        .collect()
}

#[test]
fn quotes_and_escapes() {
    assert_eq!(
        words(r#"echo 'a $b' "c $d \"" e\ f"#),
        ["echo", "a $b", "c <d!> \"", "e f"]
    );
    assert_eq!(words("echo '' \"\""), ["echo", "", ""]);
    assert_eq!(words("echo a'b'\"c\"d"), ["echo", "abcd"]);
    assert_eq!(words("echo $a${b}c $? $"), ["echo", "<a><b>c", "<?>", "$"]);
    assert_eq!(words("ls ~ ~/x a~ '~'"), ["ls", "<~>", "<~>/x", "a~", "~"]);
    assert_eq!(words("echo a#b # c"), ["echo", "a#b"]);
}

#[test]
fn lists_and_pipelines() {
    let list = parse("a; b && c || d | e\nf").unwrap();
    let shape: Vec<_> = list.iter().map(|(when, p)| (*when, p.len())).collect();
    assert_eq!(
        shape,
        [
            (When::Always, 1),
            (When::Always, 1),
            (When::Success, 1),
            (When::Failure, 2),
            (When::Always, 1),
        ]
    );
    assert_eq!(parse("").unwrap(), []);
    assert_eq!(parse(" ;\n # x").unwrap(), []);
}

#[test]
fn redirections() {
    let list = parse("cmd <in >out 2>>err 2>&1 >&2").unwrap();
    let redirects = &list[0].1[0].redirects;
    assert_eq!(redirects.len(), 5);
    assert!(matches!(&redirects[0], Redirect::Input(w) if text(w) == "in"));
    assert!(matches!(&redirects[1],
        Redirect::File { fd: 1, append: false, target } if text(target) == "out"));
    assert!(matches!(&redirects[2],
        Redirect::File { fd: 2, append: true, target } if text(target) == "err"));
    assert_eq!(redirects[3], Redirect::Duplicate { fd: 2, to: 1 });
    assert_eq!(redirects[4], Redirect::Duplicate { fd: 1, to: 2 });
    assert_eq!(words("echo 2 >x"), ["echo", "2"]);
}

#[test]
fn assignments_only_before_the_name() {
    let list = parse("A=1 B='x y' env C=2").unwrap();
    let command = &list[0].1[0];
    assert_eq!(command.assignments.len(), 2);
    assert_eq!(command.assignments[1].0, "B");
    assert_eq!(text(&command.assignments[1].1), "x y");
    assert_eq!(command.words.len(), 2);
}

#[test]
fn what_is_not_supported_is_named() {
    for (line, part) in [
        ("sleep 1 &", "background"),
        ("echo $(id)", "substitution"),
        ("echo `id`", "substitution"),
        ("(cd x)", "subshells"),
        ("cat <<EOF", "here-documents"),
        ("echo 'x", "`'`"),
        ("echo \"x", "`\"`"),
        ("a && ", "missing"),
        ("&& a", "missing"),
        ("a | | b", "missing"),
        ("a >", "missing"),
        ("echo ${a:-b}", "${"),
    ] {
        let message = parse(line).unwrap_err().to_string();
        assert!(message.contains(part), "{line}: {message}");
    }
    assert!(parse(&"a".repeat(MAX_LINE + 1)).is_err());
}

#[test]
fn never_panics_on_noise() {
    let alphabet = "a1 '\"\\$\n{}()<>|&;#~=`?";
    let chars: Vec<char> = alphabet.chars().collect();
    // A small linear congruential walk: the same noise in every run.
    let mut state = 7_usize;
    for _ in 0..5_000 {
        let mut line = String::new();
        for _ in 0..(state % 23) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_041);
            line.push(chars[(state >> 33) % chars.len()]);
        }
        state = state.wrapping_add(1);
        let _ = parse(&line);
    }
}
