#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::super::tree::tests::{files, real, tree};
use super::super::{Disk, Overlay};
use super::*;

const PORTS: Ports = Ports { from: 22, to: 2222 };
const INCLUDE: &str = "Include /etc/ssh/sshd_config.d/*.conf\n";
const DROP_IN_PATH: &str = "/etc/ssh/sshd_config.d/kite-host-sshd.conf";

/// The files that change, each with its name below `/etc/ssh` and its new content.
fn changed(of: &[(&str, &str)]) -> Vec<(String, String)> {
    let files = files(of);
    let name = |path: &Path| {
        let below = path.strip_prefix("/etc/ssh").unwrap_or(path);
        below.to_str().unwrap().to_owned()
    };
    edits(&tree(&files), PORTS, &files)
        .into_iter()
        .map(|edit| (name(&edit.path), String::from_utf8(edit.after).unwrap()))
        .collect()
}

fn one(main: &str) -> String {
    let mut changed = changed(&[("sshd_config", main)]);
    assert_eq!(changed.len(), 1, "{main}");
    changed.remove(0).1
}

#[test]
fn a_default_port_is_moved_by_a_file_in_an_included_directory() {
    // As on Debian, Ubuntu and Fedora.
    let site = ("sshd_config.d/50-site.conf", "PasswordAuthentication no\n");
    let changed = changed(&[("sshd_config", &format!("{INCLUDE}UsePAM yes\n")), site]);
    let [(name, text)] = &changed[..] else {
        panic!("{changed:?}")
    };
    assert_eq!(name, "sshd_config.d/kite-host-sshd.conf");
    assert!(
        text.ends_with("\nPort 2222\n") && text.starts_with('#'),
        "{text}"
    );
}

#[test]
fn port_lines_add_up_so_they_are_changed_where_they_stand() {
    // A file beside it would have sshd listen on both.
    let main = format!("{INCLUDE}Port 22\nMatch User x\n  X11Forwarding no\n");
    let site = ("sshd_config.d/50-site.conf", "UsePAM yes\n");
    let text = main.replace("Port 22", "Port 2222");
    assert_eq!(
        changed(&[("sshd_config", &main), site]),
        [("sshd_config".to_owned(), text)]
    );
}

#[test]
fn so_are_those_of_included_files() {
    let of = [
        ("sshd_config", INCLUDE),
        ("sshd_config.d/50.conf", "port = 22 # ours\n"),
    ];
    let expected = (
        "sshd_config.d/50.conf".to_owned(),
        "port = 2222 # ours\n".to_owned(),
    );
    assert_eq!(changed(&of), [expected]);
}

#[test]
fn other_ports_stay() {
    assert_eq!(one("Port 22\nPort 2022\n"), "Port 2222\nPort 2022\n");
}

#[test]
fn a_port_that_is_said_already_is_not_said_twice() {
    assert_eq!(one("Port 22\nPort 2222\n"), "#Port 22\nPort 2222\n");
    let of = [("sshd_config", "Port 22\nInclude a\n"), ("a", "Port 22\n")];
    let expected = [
        ("sshd_config", "Port 2222\nInclude a\n"),
        ("a", "#Port 22\n"),
    ];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(changed(&of), expected);
}

#[test]
fn addresses_with_the_port_are_changed() {
    assert_eq!(
        one("ListenAddress 10.0.0.1:22\nListenAddress [::1]:22 rdomain x\n"),
        "ListenAddress 10.0.0.1:2222\nListenAddress [::1]:2222 rdomain x\n"
    );
    assert_eq!(
        one("ListenAddress 10.0.0.1:22\nListenAddress 10.0.0.1:2222\n"),
        "#ListenAddress 10.0.0.1:22\nListenAddress 10.0.0.1:2222\n"
    );
}

#[test]
fn port_lines_that_nobody_heeds_stay() {
    assert_eq!(
        one("Port 22\nListenAddress 10.0.0.1:22\n"),
        "Port 22\nListenAddress 10.0.0.1:2222\n"
    );
}

#[test]
fn an_address_without_a_port_follows_the_port_lines() {
    assert_eq!(
        one("ListenAddress 10.0.0.1\nListenAddress 10.0.0.2:22\n"),
        "Port 2222\nListenAddress 10.0.0.1\nListenAddress 10.0.0.2:2222\n"
    );
}

#[test]
fn without_an_included_directory_the_main_file_says_it() {
    assert_eq!(one("UsePAM yes\n"), "Port 2222\nUsePAM yes\n");
    assert_eq!(
        one("# head\n#Port 22\n#AddressFamily any\nMatch all\n"),
        "# head\n#Port 22\nPort 2222\n#AddressFamily any\nMatch all\n"
    );
    assert_eq!(one("#Port 22"), "#Port 22\nPort 2222\n");
    assert_eq!(one(""), "Port 2222\n");
    // Inside of the block the line would be refused.
    assert_eq!(
        one("Match User x\n#Port 22\n"),
        "Port 2222\nMatch User x\n#Port 22\n"
    );
}

#[test]
fn a_directory_counts_only_if_it_is_there_and_takes_the_file() {
    for main in [
        "Include /etc/ssh/none.d/*.conf\n",
        "Include /etc/ssh/sshd_config.d/[0-9]*.conf\n",
        "Include /etc/*/sshd_config.d/*.conf\n",
        "Match User x\nInclude /etc/ssh/sshd_config.d/*.conf\n",
    ] {
        let site = ("sshd_config.d/50.conf", "X11Forwarding no\n");
        let changed = changed(&[("sshd_config", main), site]);
        assert_eq!(changed.len(), 1, "{main}");
        assert_eq!(changed[0].0, "sshd_config", "{main}");
    }
}

#[test]
fn a_file_of_that_name_is_not_overwritten() {
    let of = [
        ("sshd_config", INCLUDE),
        ("sshd_config.d/kite-host-sshd.conf", "UsePAM no\n"),
    ];
    assert_eq!(changed(&of)[0].0, "sshd_config");
}

#[test]
fn where_the_port_is_another_there_is_nothing_to_change() {
    for main in [
        "Port 2022\n",
        "ListenAddress 10.0.0.1:2022\n",
        "Port 2222\n",
    ] {
        assert_eq!(changed(&[("sshd_config", main)]), [], "{main}");
    }
    let files = files(&[("sshd_config", "")]);
    let ports = Ports { from: 2022, to: 22 };
    assert_eq!(edits(&tree(&files), ports, &files), []);
}

#[test]
fn changes_are_told_line_by_line() {
    let text = "# head\nPort 22\r\n\nListenAddress 10.0.0.1:22\nPort 22\n";
    let files = files(&[("sshd_config", &format!("{text}ListenAddress ::1\n"))]);
    let told: Vec<_> = edits(&tree(&files), PORTS, &files)[0]
        .changes
        .iter()
        .map(|change| (change.line, change.old.clone().unwrap(), change.new.clone()))
        .collect();
    let expected = [
        (2, "Port 22", "Port 2222"),
        (
            4,
            "ListenAddress 10.0.0.1:22",
            "ListenAddress 10.0.0.1:2222",
        ),
        (5, "Port 22", "#Port 22"),
    ];
    let expected = expected.map(|(line, old, new)| (line, old.to_owned(), new.to_owned()));
    assert_eq!(told, expected);
}

/// A line of a configuration: some that matter, and some that do not.
fn line() -> impl Strategy<Value = String> {
    let port = prop_oneof![
        Just("22"),
        Just("2222"),
        Just("2022"),
        Just("\"22\""),
        Just("ssh")
    ];
    let host = prop_oneof![Just("127.0.0.1"), Just("[::1]"), Just("0.0.0.0")];
    let address = (
        host.clone(),
        port.clone()
            .prop_filter("plain", |port| !port.contains('"')),
    );
    prop_oneof![
        3 => port.prop_map(|port| format!("Port {port}")),
        2 => address.prop_map(|(host, port)| format!("ListenAddress {host}:{port}")),
        1 => host.prop_map(|host| format!("listenaddress  {host}")),
        1 => Just("#Port 22".to_owned()),
        1 => Just(String::new()),
        2 => Just("X11Forwarding yes # Port 22".to_owned()),
        1 => Just("Banner \"Port 22\"".to_owned()),
    ]
}

/// The main file, and one that it includes: lines, and perhaps a block at the end.
fn config() -> impl Strategy<Value = [String; 2]> {
    let lines = || prop::collection::vec(line(), 0..5);
    let block = || {
        prop_oneof![
            Just(""),
            Just("Match User x\n  X11Forwarding no\n#Port 22\n")
        ]
    };
    let text = || (lines(), block()).prop_map(|(lines, block)| lines.join("\n") + "\n" + block);
    (any::<bool>(), text(), text()).prop_map(|(includes, main, more)| {
        let include = if includes {
            "Include DIR/d/*.conf\n"
        } else {
            ""
        };
        [format!("{include}{main}"), more]
    })
}

/// The lines that have nothing to do with where sshd listens.
fn others(content: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(content).to_lowercase();
    let matters = |line: &&str| {
        let line = line.trim_start_matches('#');
        line.starts_with("port") || line.starts_with("listenaddress")
    };
    text.lines()
        .filter(|line| !matters(line))
        .map(str::to_owned)
        .collect()
}

proptest! {
    #[test]
    fn any_configuration_is_moved([main, more] in config()) {
        let main = main.replace("DIR", "/etc/ssh");
        let files = files(&[("sshd_config", &main), ("d/more.conf", &more)]);
        let before = tree(&files);
        let edits = edits(&before, PORTS, &files);
        prop_assert_eq!(edits.is_empty(), !before.ports().contains(&22));
        for edit in &edits {
            if let Some(content) = &edit.before {
                prop_assert_eq!(content, &files[&edit.path]);
                prop_assert_eq!(others(content), others(&edit.after));
            }
        }
        let after = edits.iter().map(|edit| (edit.path.clone(), Some(edit.after.clone())));
        let overlay = Overlay { below: &files, files: after.collect() };
        let after = tree(&overlay);
        let moved: BTreeSet<u16> = before.ports().into_iter().map(|port| PORTS.moved(port)).collect();
        prop_assert_eq!(after.ports(), moved);
        prop_assert_eq!(super::edits(&after, PORTS, &overlay), []);
    }

    #[test]
    fn any_mixture_of_old_and_new_files_listens_on_one_of_the_ports(
        [main, more] in config(), written in any::<u8>(),
    ) {
        // What a crash may leave behind.
        let main = main.replace("DIR", "/etc/ssh");
        let files = files(&[("sshd_config", &main), ("d/more.conf", &more)]);
        let before = tree(&files);
        prop_assume!(before.ports().contains(&22));
        let edits = edits(&before, PORTS, &files);
        let some = edits.iter().enumerate().filter(|(index, _)| written >> index & 1 == 1);
        let files = some.map(|(_, edit)| (edit.path.clone(), Some(edit.after.clone()))).collect();
        let mixture = Overlay { below: &super::super::tree::tests::files(
            &[("sshd_config", &main), ("d/more.conf", &more)]), files };
        let ports = tree(&mixture).ports();
        prop_assert!(ports.contains(&22) || ports.contains(&2222), "{ports:?}");
    }
}

#[test]
fn sshd_agrees_with_what_was_moved() {
    let Some(sshd) = real::Sshd::new() else {
        return;
    };
    let included = sshd.dir.path().join("d/more.conf");
    std::fs::create_dir(included.parent().unwrap()).unwrap();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let dir = sshd.dir.path().display().to_string();
    let agreed = runner.run(&config(), |[main, more]| {
        let path = sshd.write(&main.replace("DIR", &dir));
        std::fs::write(&included, more).unwrap();
        let before = real::Sshd::effective(&path);
        let tree = Tree::load(&path, &Disk).unwrap();
        prop_assert_eq!(tree.ports(), before.ports());
        let edits = edits(&tree, PORTS, &Disk);
        for edit in &edits {
            std::fs::write(&edit.path, &edit.after).unwrap();
        }
        let after = real::Sshd::effective(&path);
        prop_assert_eq!(after.difference(&before.moved(PORTS)), None);
        for edit in edits.iter().filter(|edit| edit.before.is_none()) {
            std::fs::remove_file(&edit.path).unwrap();
        }
        Ok(())
    });
    agreed.unwrap();
}

#[test]
fn the_names_of_new_files_are_those_that_are_documented() {
    let files = files(&[("sshd_config", INCLUDE), ("sshd_config.d/x.conf", "")]);
    let edits = edits(&tree(&files), PORTS, &files);
    assert_eq!(edits[0].path, Path::new(DROP_IN_PATH));
    assert_eq!(edits[0].before, None);
}
