//! What a guest does with its volumes: the very command that it is given, with the programs that
//! guests have, on files in the place of disks.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use kite_core::{
    crd::{OsFamily, VolumeAttachment},
    names,
};
use kite_render::{Vm, cloud_init};
use tempfile::TempDir;

const MIB: usize = 1 << 20;

/// Where a guest finds its disks, and what it mounts.
struct Guest {
    root: TempDir,
}

impl Guest {
    /// With the disk of `data`, as it is.
    fn new(disk: &[u8]) -> Self {
        let guest = Self {
            root: tempfile::tempdir().unwrap(),
        };
        for of in ["sys/vda", "sys/vdb", "dev", "bin", "mnt"] {
            fs::create_dir_all(guest.path(of)).unwrap();
        }
        fs::write(guest.path("sys/vda/serial"), "another").unwrap();
        let serial = names::volume_serial("kite-user-ann", "data");
        fs::write(guest.path("sys/vdb/serial"), serial).unwrap();
        fs::write(guest.disk(), disk).unwrap();
        // Who is not root mounts nothing, and what is not mounted is not grown in place: `resize2fs`
        // would open it as its own and write the second at which it did.
        guest.program("mountpoint", "exit 1");
        for (program, log) in [("mount", "mounted"), ("resize2fs", "grown")] {
            let log = guest.path(log);
            guest.program(program, &format!("echo \"$@\" >> {}", log.display()));
        }
        guest
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    fn disk(&self) -> PathBuf {
        self.path("dev/vdb")
    }

    /// Puts a program in the place of another.
    fn program(&self, name: &str, script: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs what the VM with the volume `data` at `path` is told to run at each boot.
    fn boots(&self, path: &Path) -> Output {
        // Who waits for a disk waits no second here.
        self.program("sleep", "exit 0");
        let mut object = common::vm();
        object.metadata.namespace = Some("kite-user-ann".to_owned());
        object.spec.volumes = vec![VolumeAttachment {
            volume: "data".to_owned(),
            path: Some(path.display().to_string()),
        }];
        let vm = Vm::of(&object).unwrap();
        let config = cloud_init::cloud_config(&vm, &common::keys(), OsFamily::Debian).unwrap();
        let mut command = config.bootcmd.last().unwrap().clone();
        for (of, here) in [("/sys/block", "sys"), ("/dev/$", "dev/$")] {
            let here = self.path(here).display().to_string();
            command[2] = command[2].replace(of, &here);
        }
        let programs = format!(
            "{}:/usr/sbin:/sbin:/usr/bin:/bin",
            self.path("bin").display()
        );
        let output = Command::new(&command[0])
            .args(&command[1..])
            .env("PATH", programs)
            .output();
        output.unwrap()
    }

    fn boot(&self) -> Output {
        self.boots(&self.path("mnt/data"))
    }

    /// What was mounted.
    fn mounted(&self) -> String {
        fs::read_to_string(self.path("mounted")).unwrap_or_default()
    }

    /// What was grown to the size of its disk.
    fn grown(&self) -> String {
        fs::read_to_string(self.path("grown")).unwrap_or_default()
    }

    fn kind(&self) -> String {
        let found = Command::new("/usr/sbin/blkid")
            .args(["-p", "-o", "value", "-s", "TYPE"])
            .arg(self.disk())
            .output();
        String::from_utf8(found.unwrap().stdout)
            .unwrap()
            .trim()
            .to_owned()
    }
}

/// A disk with `bytes` at `at`, and nothing else.
fn disk(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut disk = vec![0; 16 * MIB];
    disk[at..at + bytes.len()].copy_from_slice(bytes);
    disk
}

#[test]
fn a_blank_disk_is_formatted_once_and_mounted_at_each_boot() {
    let guest = Guest::new(&disk(0, &[]));
    let output = guest.boot();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(guest.kind(), "ext4", "{output:?}");
    let mounted = format!(
        "-t ext4 {} {}\n",
        guest.disk().display(),
        guest.path("mnt/data").display()
    );
    assert_eq!(guest.mounted(), mounted);
    assert!(guest.path("mnt/data").is_dir());
    let before = fs::read(guest.disk()).unwrap();
    guest.boot();
    assert!(fs::read(guest.disk()).unwrap() == before, "it is as it was");
    assert_eq!(guest.mounted(), mounted.repeat(2));
    let grown = format!("{}\n", guest.disk().display());
    assert_eq!(guest.grown(), grown.repeat(2));
}

#[test]
fn whatever_is_on_a_disk_stays() {
    let mut table = [0; 512];
    table[446..462].copy_from_slice(&[0, 0, 2, 0, 0x83, 0, 1, 0, 1, 0, 0, 0, 8, 0, 0, 0]);
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    let luks = b"LUKS\xba\xbe\x00\x02";
    let swap = b"SWAPSPACE2";
    let raid = [0xa92b_4efc_u32, 0, 90].map(u32::to_le_bytes).concat();
    for (what, at, bytes) in [
        ("a partition table", 0, &table[..]),
        ("encryption", 0, luks),
        ("swap", 4086, swap),
        ("a text", 0, b"mine"),
        ("what nobody knows", 700_000, b"mine"),
        // Of this there is nothing at the beginning.
        ("a part of RAID", 16 * MIB - (64 << 10), &raid),
        ("BtrFS", 0x10040, b"_BHRfS_M"),
        ("XFS", 0, b"XFSB"),
        ("LVM", 512, b"LABELONE"),
    ] {
        let guest = Guest::new(&disk(at, bytes));
        let before = fs::read(guest.disk()).unwrap();
        let output = guest.boot();
        let after = fs::read(guest.disk()).unwrap();
        assert!(after == before, "{what}: {output:?}");
    }
}

#[test]
fn who_cannot_be_asked_has_not_said_that_there_is_nothing() {
    for (program, answer) in [
        ("blkid", "exit 127"),
        ("blkid", "exit 1"),
        ("blkid", "exit 0"),
        ("wipefs", "exit 1"),
        ("wipefs", "echo 0x0,,,zfs_member"),
        ("cmp", "exit 2"),
    ] {
        let guest = Guest::new(&disk(0, &[]));
        guest.program(program, answer);
        guest.boot();
        let after = fs::read(guest.disk()).unwrap();
        assert!(after.iter().all(|it| *it == 0), "{program}: {answer}");
    }
}

#[test]
fn of_a_disk_that_is_not_there_nothing_is_mounted() {
    let guest = Guest::new(&disk(0, &[]));
    fs::write(guest.path("sys/vdb/serial"), "of no volume").unwrap();
    let output = guest.boot();
    assert_eq!(guest.mounted(), "");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("there is no disk"), "{said}");
}
