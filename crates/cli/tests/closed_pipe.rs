//! Standard output that its reader closes early: the process ends by SIGPIPE, without a message.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::{Scratch, binary, config};

const SIGPIPE: i32 = 13;

/// Runs a command with a standard output without a reader. Returns its standard error and the
/// signal that ended it.
fn unread(directory: &Path, arguments: &[&str]) -> (String, Option<i32>) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(binary("spindle"));
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    command.stdout(writer).stderr(Stdio::piped());
    let output = command.spawn().expect("it is built").wait_with_output().expect("it ends");
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.signal())
}

#[test]
fn a_reader_that_closes_early_ends_the_command_quietly() {
    // More than a pipe holds, so that the process is still writing when its reader closes.
    let mut child = Command::new(binary("spindle"))
        .args(["drive", "show", "hgst-7k8", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it is built");
    let mut stdout = child.stdout.take().expect("it is piped");
    stdout.read_exact(&mut [0; 300]).expect("the beginning of an object");
    drop(stdout);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.signal(), output.stderr.as_slice()), (Some(SIGPIPE), &b""[..]));
}

#[test]
fn a_pipe_without_a_reader_ends_every_kind_of_command_quietly() {
    let scratch = Scratch::new();
    let plan = "seed = 3\nduration = \"1s\"\n".to_owned()
        + &config("ram")
        + "[[workload]]\nvolume = \"a\"\nop = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\n\
           outstanding = 1\n";
    scratch.write("plan.toml", plan);
    scratch.write("t.trace", "spindle trace 1\n0 R 0 8 0\n");
    scratch.write("a.img", vec![0; 64 << 20]);
    scratch.write("b.img", vec![0; 64 << 20]);
    let commands: [&[&str]; 9] = [
        &["drive", "ls"],
        &["drive", "ls", "--json"],
        &["drive", "show", "hgst-7k8"],
        &["sim", "run", "plan.toml"],
        &["sim", "run", "plan.toml", "--json"],
        &["trace", "stat", "t.trace"],
        &["trace", "stat", "t.trace", "--json"],
        &["pool", "create", "a.img", "b.img", "--json"],
        &["pool", "status", "a.img", "b.img"],
    ];
    for arguments in commands {
        let (stderr, signal) = unread(scratch.path(), arguments);
        assert_eq!(signal, Some(SIGPIPE), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
    }
}
