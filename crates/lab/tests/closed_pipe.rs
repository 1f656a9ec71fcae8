//! Standard output that its reader closes early: the process ends by SIGPIPE, without a message.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::{Scratch, binary};

const SIGPIPE: i32 = 13;

/// Runs a command with a standard output without a reader. Returns its standard error and the
/// signal that ended it.
fn unread(directory: &Path, arguments: &[&str]) -> (String, Option<i32>) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(binary("spindle-lab"));
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    command.stdout(writer).stderr(Stdio::piped());
    let output = command.spawn().expect("it is built").wait_with_output().expect("it ends");
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.signal())
}

#[test]
fn a_pipe_without_a_reader_ends_every_kind_of_command_quietly() {
    let scratch = Scratch::new();
    scratch.write("demo.csv", "time_s,seq_s\n0,0\n1,0.7\n");
    scratch.write("x.trace", "R Hit 0 8 1500.0 20000.0\n");
    let commands: [&[&str]; 5] = [
        &["reproduce", "vdisk-fig2"],
        &["reproduce", "vdisk-fig2", "--json"],
        &["validate", "hgst-7k8", "--trace", "x.trace"],
        &["validate", "hgst-7k8", "--trace", "x.trace", "--json"],
        &["plot", "demo", "demo.csv", "--json"],
    ];
    for arguments in commands {
        let (stderr, signal) = unread(scratch.path(), arguments);
        assert_eq!(signal, Some(SIGPIPE), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
    }
}
