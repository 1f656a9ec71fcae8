//! Tools of the system: each is run to its end, and says what it has to say in an error.

use std::process::{Command, Output, Stdio};

use tonic::Status;

use super::steps;
use crate::limits::TOOL_BYTES_MAX;

/// Runs a tool.
///
/// # Errors
/// It cannot be started.
pub(super) fn run(tool: &str, arguments: &[&str]) -> Result<Output, Status> {
    let failed = |error| Status::internal(format!("{tool} cannot be run: {error}"));
    let mut command = Command::new(tool);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = steps::after(command.spawn()).map_err(failed)?;
    steps::after(child.wait_with_output()).map_err(failed)
}

/// Runs a tool that has to succeed, and returns its standard output.
///
/// # Errors
/// It cannot be started, or fails.
pub(super) fn expect(tool: &str, arguments: &[&str]) -> Result<String, Status> {
    let output = run(tool, arguments)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(Status::internal(format!("{tool}: {}", said(&output))))
}

/// What a tool has said of its failure.
pub(super) fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let text: String = text.trim().chars().take(TOOL_BYTES_MAX).collect();
    format!("{} ({text})", output.status)
}
