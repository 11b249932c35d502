#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use super::*;

/// Files of a configuration whose main one is `/etc/ssh/sshd_config`.
pub(crate) fn files(files: &[(&str, &str)]) -> BTreeMap<PathBuf, Vec<u8>> {
    let file = |(path, content): &(&str, &str)| {
        let path = if path.starts_with('/') {
            PathBuf::from(path)
        } else {
            Path::new("/etc/ssh").join(path)
        };
        (path, content.as_bytes().to_vec())
    };
    files.iter().map(file).collect()
}

pub(crate) fn tree(source: &dyn Source) -> Tree {
    Tree::load(Path::new("/etc/ssh/sshd_config"), source).unwrap()
}

fn ports(of: &[(&str, &str)]) -> Vec<u16> {
    tree(&files(of)).ports().into_iter().collect()
}

#[test]
fn where_sshd_listens() {
    let main = |text| ports(&[("sshd_config", text)]);
    assert_eq!(main(""), [22]);
    assert_eq!(main("#Port 2200\n"), [22]);
    assert_eq!(main("Port 2200\n"), [2200]);
    assert_eq!(main("Port 22\nport=2200\n"), [22, 2200]);
    assert_eq!(main("Port ssh\n"), [22]);
    assert_eq!(main("ListenAddress 10.0.0.1\n"), [22]);
    assert_eq!(main("ListenAddress 10.0.0.1:2200\n"), [2200]);
    assert_eq!(main("ListenAddress 10.0.0.1:2200\nPort 22\n"), [2200]);
    assert_eq!(
        main("ListenAddress ::1\nListenAddress [::1]:99\nPort 7\n"),
        [7, 99]
    );
}

#[test]
fn nothing_is_said_behind_a_match() {
    // sshd refuses such a file; what it does not say must not be changed.
    assert_eq!(ports(&[("sshd_config", "Match User x\nPort 2200\n")]), [22]);
    let main = "Match User x\nInclude x/*\nMatch all\nInclude y\n";
    let of = [("sshd_config", main), ("x/1", "Port 1"), ("y", "Port 2")];
    assert_eq!(ports(&of), [22]);
    let tree = tree(&files(&of));
    assert_eq!(tree.files.len(), 3, "they are read all the same");
    assert!(tree.files[1].conditional && tree.patterns().next().is_none());
}

#[test]
fn a_match_ends_with_its_file() {
    let of = [
        ("sshd_config", "Include x\nPort 3\n"),
        ("x", "Port 1\nMatch User x\nX11Forwarding no\n"),
    ];
    assert_eq!(ports(&of), [1, 3]);
}

#[test]
fn files_are_included_from_files() {
    let of = [
        (
            "sshd_config",
            "Include /etc/ssh/sshd_config.d/*.conf /opt/more\n",
        ),
        ("sshd_config.d/10-a.conf", "Include inner\n"),
        ("sshd_config.d/ignored", "Port 5\n"),
        ("inner", "Port 6\n"),
        ("/opt/more", "Port 7\n"),
    ];
    assert_eq!(ports(&of), [6, 7]);
    let patterns: Vec<_> = tree(&files(&of)).patterns().map(str::to_owned).collect();
    assert_eq!(
        patterns,
        [
            "/etc/ssh/sshd_config.d/*.conf",
            "/opt/more",
            "/etc/ssh/inner"
        ]
    );
}

#[test]
fn a_file_that_includes_itself_is_refused() {
    let files = files(&[("sshd_config", "Include sshd_config\n")]);
    let error = Tree::load(Path::new("/etc/ssh/sshd_config"), &files).unwrap_err();
    assert!(error.to_string().contains("16 levels"), "{error}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Tree::load(Path::new("/etc/ssh/sshd_config"), &files(&[])).unwrap_err();
    assert!(
        error.to_string().contains("/etc/ssh/sshd_config"),
        "{error}"
    );
}

#[test]
fn addresses_with_and_without_port() {
    for (text, host, port) in [
        ("10.0.0.1", "10.0.0.1", None),
        ("10.0.0.1:99", "10.0.0.1", Some(99)),
        ("[::1]", "[::1]", None),
        ("[::1]:99", "[::1]", Some(99)),
        ("fe80::1", "fe80::1", None),
        ("node.example:ssh", "node.example", Some(22)),
    ] {
        let host = host.to_owned();
        assert_eq!(Address::parse(text), Some(Address { host, port }), "{text}");
    }
    for text in ["10.0.0.1:0", "10.0.0.1:70000", "[::1]99", "a:b"] {
        assert_eq!(Address::parse(text), None, "{text}");
    }
}

#[test]
fn the_reading_is_that_of_sshd() {
    let Some(sshd) = real::Sshd::new() else {
        return;
    };
    let dir = sshd.dir.path().display();
    let included = sshd.dir.path().join("included");
    for (main, more) in [
        ("Include DIR/included\n", "Port 2201"),
        ("Include DIR/included\nPort 2202\n", "port=2201"),
        (
            "Include \"DIR/incl*\"\nPort ssh\n",
            "Port \"2203\" # as ever",
        ),
        ("Port '2204'\nListenAddress 127.0.0.1\n", ""),
        ("ListenAddress 127.0.0.1:2205\nPort 2206\n", ""),
        (
            "ListenAddress ::1\nListenAddress [::1]:2207\nPort 2208\nPort 2209\r\n",
            "",
        ),
        (
            "Include=DIR/included\nMatch User x\n",
            "Port 2210\nMatch User y\n",
        ),
        ("Include DIR/x[!y]cluded DIR/?ncluded\n", "Port = 2211"),
        ("Include DIR/included DIR/included\n", "Port 2212"),
        ("\"Port\" 2213\n#Port 22\n", ""),
        ("Match User x\n Include DIR/included\n", "X11Forwarding no"),
    ] {
        let path = sshd.write(&main.replace("DIR", &dir.to_string()));
        std::fs::write(&included, more).unwrap();
        let tree = Tree::load(&path, &super::super::Disk).unwrap();
        assert_eq!(
            tree.ports(),
            real::Sshd::effective(&path).ports(),
            "{main} {more}"
        );
    }
}

/// What `sshd -T` says, where there is an sshd.
pub(crate) mod real {
    use std::io::Write as _;
    use std::process::Command;

    use super::*;
    use crate::effective::Effective;

    pub(crate) struct Sshd {
        pub(crate) dir: tempfile::TempDir,
    }

    impl Sshd {
        pub(crate) fn new() -> Option<Self> {
            let required = std::env::var_os("KITE_REQUIRE_CLIENTS").is_some();
            if !Path::new("/usr/sbin/sshd").exists() {
                assert!(!required, "KITE_REQUIRE_CLIENTS is set: there is no sshd");
                let _ = writeln!(
                    std::io::stderr(),
                    "SKIPPED: there is no /usr/sbin/sshd (Debian: openssh-server)"
                );
                return None;
            }
            let dir = tempfile::tempdir().unwrap();
            let status = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(dir.path().join("key"))
                .status();
            assert!(status.unwrap().success());
            // Where sshd separates privileges it insists on this directory.
            let _ = std::fs::create_dir_all("/run/sshd");
            Some(Self { dir })
        }

        /// Writes a main file, with a host key.
        pub(crate) fn write(&self, text: &str) -> PathBuf {
            let path = self.dir.path().join("sshd_config");
            let key = self.dir.path().join("key");
            let text = format!("HostKey {}\n{text}", key.display());
            std::fs::write(&path, text).unwrap();
            path
        }

        pub(crate) fn effective(path: &Path) -> Effective {
            let mut command = Command::new("/usr/sbin/sshd");
            let output = command.arg("-T").arg("-f").arg(path).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            Effective::parse(&String::from_utf8_lossy(&output.stdout))
        }
    }
}
