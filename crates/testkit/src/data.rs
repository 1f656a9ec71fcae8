//! Real clients that write data and read it back.

use std::process::{Child, Stdio};

use crate::process::{client, succeed};
use crate::scratch::Scratch;
use crate::server::Server;

/// Starts fio, which writes to a volume at random and reads back what it wrote; `shape` says how
/// much and in which requests.
///
/// # Panics
/// If fio is not installed.
pub fn verifying(server: &Server, volume: &str, shape: &[&str], scratch: &Scratch) -> Child {
    let mut command = client("fio");
    command
        .args(["--ioengine=nbd", "--verify=crc32c", "--verify_fatal=1", "--rw=randwrite"])
        .args(shape)
        .arg(format!("--name={volume}"))
        .arg(format!("--uri={}", server.uri(volume)))
        .current_dir(scratch.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("it is installed")
}

/// Waits until fio has read back all that it wrote.
///
/// # Panics
/// If a request failed, or fio read something else.
pub fn verified(fio: Child) {
    let ended = fio.wait_with_output().expect("a child");
    assert!(ended.status.success(), "fio: {}", String::from_utf8_lossy(&ended.stderr));
}

/// Fills a part of a volume with a byte, or checks that it is filled with it: a command of
/// `qemu-io`.
///
/// # Panics
/// If it fails, or the volume holds something else.
pub fn pattern(server: &Server, volume: &str, how: &str, scratch: &Scratch) {
    let uri = server.uri(volume);
    // Reads open the export read-only, because a snapshot cannot be opened otherwise.
    let mode: &[&str] = if how.starts_with("read") { &["-r"] } else { &[] };
    let arguments = [mode, &["-f", "raw", "-c", how, &uri]].concat();
    let said = succeed("qemu-io", &arguments, scratch.path());
    assert!(!said.contains("failed"), "{how}: {said}");
}
