//! Images of the processes as `deploy/images/build` makes them of what is built, and
//! processes in them as a kubelet starts them.

#![allow(clippy::unwrap_used)]

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

use crate::support::{run, show};

/// The user as which the images, and the rendered pods, run.
pub const USER: &str = "65532";

/// Starts a program of the new root `$0` that cannot be written, as nobody.
const IN_ROOT: &str = r#"
mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd "$0" || exit
exec chroot --userspec=65532:65532 "$0" "$@""#;

/// The root file systems of images.
pub struct Images {
    directory: PathBuf,
}

impl Images {
    /// Makes the images, checks and unpacks them. Where a program for that is missing,
    /// or only root may do it, the test says so and passes; in CI
    /// (`KITE_REQUIRE_CLIENTS`) it fails.
    pub fn unpacked(directory: &Path, binaries: &Path) -> Option<Self> {
        for (program, arguments) in [
            ("python3", &["-c", "import tomllib"][..]),
            ("strip", &["--version"]),
            (
                "unshare",
                &["-m", "chroot", "--userspec=65532:65532", "/", "true"],
            ),
        ] {
            let output = Command::new(program).args(arguments).output();
            if !output.is_ok_and(|output| output.status.success()) {
                assert!(
                    std::env::var_os("KITE_REQUIRE_CLIENTS").is_none(),
                    "KITE_REQUIRE_CLIENTS is set, and this does not work: {program} {arguments:?}"
                );
                let _ = writeln!(
                    std::io::stderr(),
                    "SKIPPED: {program} {arguments:?} is not there, or not allowed"
                );
                return None;
            }
        }
        let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/images/build");
        let mut command = Command::new("python3");
        command.arg(build).env("STRIP", "1");
        command.args(["--compression", "1", "--binaries"]);
        command.arg(binaries).arg("--output").arg(directory);
        let sizes = succeeded(command);
        // Past what the test harness keeps to itself.
        let _ = write!(std::io::stderr(), "{sizes}");
        assert_eq!(sizes.lines().count(), 3, "{sizes}");
        Some(Self {
            directory: directory.to_owned(),
        })
    }

    /// Unpacks the layer of the image of `process`, and gives its root and its config.
    pub fn root(&self, process: &str) -> (PathBuf, Value) {
        let layout = self.directory.join(process);
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap();
            let path = layout.join("blobs").join(digest.replace(':', "/"));
            let mut command = Command::new("sha256sum");
            command.arg(&path);
            let sum = succeeded(command);
            assert_eq!(digest, format!("sha256:{}", &sum[..64]));
            assert_eq!(descriptor["size"], path.metadata().unwrap().len());
            path
        };
        let json = |path: PathBuf| -> Value {
            serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
        };
        let index = json(layout.join("index.json"));
        let manifest = json(blob(&index["manifests"][0]));
        let config = json(blob(&manifest["config"]));
        let root = layout.join("root");
        fs::create_dir(&root).unwrap();
        let mut command = Command::new("tar");
        command.arg("-xzf").arg(blob(&manifest["layers"][0]));
        command.arg("-C").arg(&root);
        succeeded(command);
        (root, config)
    }
}

/// The command that starts a program of `root` as a kubelet would: the root cannot be
/// written, and the program is nobody's.
pub fn in_root(root: &Path, program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", IN_ROOT]);
    command.arg(root).arg(program).env_clear();
    // For what starts it; the programs have no use for it.
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

fn succeeded(command: Command) -> String {
    let output: Output = run(command, "");
    assert!(output.status.success(), "{}", show(&output));
    String::from_utf8(output.stdout).unwrap()
}
