//! Output that survives a reader that leaves.
//!
//! `spindle drive ls --json | head -c 300` closes the pipe while the process writes to it. The
//! standard library ignores SIGPIPE and panics at the failed write. Here the process ends as
//! other tools do: by SIGPIPE, without a message. A closed standard error is no reason to end: a
//! daemon goes on without it.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

use signal_hook::consts::SIGPIPE;

/// Writes to standard output; ends the process if that fails.
pub fn write(text: Arguments<'_>) {
    let done = io::stdout().lock().write_fmt(text);
    done.unwrap_or_else(|error| fail(&error));
}

/// Writes to standard error as far as it takes text.
pub fn write_error(text: Arguments<'_>) {
    // There is no other place to report that standard error is closed.
    let _ = io::stderr().lock().write_fmt(text);
}

/// Ends the process: by SIGPIPE if the reader has closed the pipe, else with code 1.
fn fail(error: &io::Error) -> ! {
    if error.kind() == ErrorKind::BrokenPipe {
        // Returns only on failure; the exit code below is then the only answer left.
        let _ = signal_hook::low_level::emulate_default_handler(SIGPIPE);
    } else {
        write_error(format_args!("cannot write to standard output: {error}\n"));
    }
    std::process::exit(1)
}

/// Writes to standard output; a closed pipe ends the process by SIGPIPE.
#[macro_export]
macro_rules! print {
    ($($text:tt)*) => { $crate::output::write(format_args!($($text)*)) };
}

/// Writes a line to standard output; a closed pipe ends the process by SIGPIPE.
#[macro_export]
macro_rules! println {
    () => { $crate::output::write(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($text)*))) };
}

/// Writes to standard error; one that is closed is ignored.
#[macro_export]
macro_rules! eprint {
    ($($text:tt)*) => { $crate::output::write_error(format_args!($($text)*)) };
}

/// Writes a line to standard error; one that is closed is ignored.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::output::write_error(format_args!("\n")) };
    ($($text:tt)*) => {
        $crate::output::write_error(format_args!("{}\n", format_args!($($text)*)))
    };
}
