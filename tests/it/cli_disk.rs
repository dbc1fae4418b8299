//! A disk that is full: one sentence, and nothing half done.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::cli_platform::Platform;
use super::cli_process::{perilune, run};

/// A file system of its own, a few megabytes small. Unmounted when it is dropped.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// None, with a word on stderr, where this user may not mount.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=3m", "tmpfs"]).arg(folder.path()).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self { folder });
        }
        eprintln!("skipped: a small file system can be mounted by root alone");
        None
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Takes all the room that is left, until the file is removed.
    fn fill(&self) -> PathBuf {
        let filler = self.path().join("filler");
        let zeros = vec![0; 64 * 1024];
        let mut file = std::fs::File::create(&filler).expect("made");
        while std::io::Write::write_all(&mut file, &zeros).is_ok() {}
        let one = [0];
        while std::io::Write::write_all(&mut file, &one).is_ok() {}
        filler
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[test]
fn a_server_does_not_start_on_a_full_disk_and_does_once_there_is_room() {
    let Some(disk) = SmallDisk::mount() else { return };
    let filler = disk.fill();
    let url = format!("sqlite:{}", disk.path().join("p.db").display());
    run(&mut perilune(["serve", "--listen", "127.0.0.1:0", "--database", &url]))
        .expect_code(1)
        .expect_stderr(&["--database", "full"]);
    std::fs::remove_file(filler).expect("removed");
    run(&mut perilune(["credential", "list", "--database", &url])).expect_code(0);
}

#[test]
fn what_a_full_disk_refuses_is_published_once_there_is_room() {
    let Some(disk) = SmallDisk::mount() else { return };
    let platform = Platform::start_in(disk.path());
    let subscription = platform.subscribe();
    platform.publish("{\"payload\":1}\n").expect_code(0);
    let filler = disk.fill();
    let lines = format!("{{\"payload\":1}}\n{{\"payload\":\"{}\"}}\n", "x".repeat(200_000));
    let publish = |retry_for: &str| {
        let arguments =
            ["publish", "--ndjson", "-", "--queue", "reports", "--operation", "Op", "--status", "succeeded"];
        let mut command = platform.command(&arguments);
        super::cli_process::run_with_input(command.args(["--retry-for", retry_for]), lines.as_bytes())
    };
    let refused = publish("300ms").expect_code(1).expect_stderr(&["UNAVAILABLE", "full"]);
    assert!(refused.stdout.starts_with("published 0, "), "{refused:?}");
    std::fs::remove_file(filler).expect("removed");
    assert_eq!(publish("60s").expect_code(0).stdout, "published 1, already there 1, refused 0\n");
    let arguments = ["consume", "--subscription", &subscription, "--print", "--max-events", "2"];
    let printed = run(&mut platform.command(&arguments)).expect_code(0);
    assert_eq!(printed.stdout.lines().count(), 2, "each once");
}
