//! A running daemon, over its API: the socket, its answers, their exit codes.
//!
//! The daemon's answer is printed as it came with `--json`. Exit codes: 0 done; 1 the daemon
//! refused the change, or it does not fit; 2 the input is bad, or no daemon answers.

use std::path::{Path, PathBuf};

use anyhow::Context;
use api::{Answer, Client, ClientError, Problem};
use clap::Args;
use console::{ExitStatus, bad_input, print, println};
use serde::de::DeserializeOwned;

/// The name of the API's socket: a daemon makes it beside its config, and commands look for it in
/// the working directory.
pub(crate) const SOCKET: &str = "spindle-api.sock";
/// The socket of the daemon that the packages install.
const SERVICE_SOCKET: &str = "/run/spindle/api.sock";

/// The daemon that a command talks to.
#[derive(Debug, Args)]
pub(crate) struct ApiSocket {
    /// The socket of the daemon's API. Default: `spindle-api.sock` in the working directory, or
    /// else the service's, /run/spindle/api.sock.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl ApiSocket {
    /// The socket that was named, or the first that exists: that of a daemon here, or `service`.
    fn path(&self, service: &Path) -> PathBuf {
        if let Some(named) = &self.socket {
            return named.clone();
        }
        let here = PathBuf::from(SOCKET);
        if !here.exists() && service.exists() { service.to_owned() } else { here }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.path(Path::new(SERVICE_SOCKET)))
    }
}

/// A volume, disk or pool of a daemon.
#[derive(Debug, Args)]
pub(crate) struct Named {
    #[command(flatten)]
    pub(crate) api: ApiSocket,
    /// Its name.
    pub(crate) name: String,
}

/// The daemon's answer, if it is a success. A conflict or a failure of the daemon gives exit code
/// 1, a refused request 2.
pub(crate) fn accepted(answer: Result<Answer, ClientError>) -> anyhow::Result<Answer> {
    let answer = answer.map_err(bad_input)?;
    if (200..300).contains(&answer.status) {
        return Ok(answer);
    }
    let problem: Problem = parse(&answer)?;
    match answer.status {
        409 | 500.. => Err(anyhow::anyhow!("{}", problem.error.message)),
        _ => Err(bad_input(problem.error.message)),
    }
}

/// The body of an answer as `T`.
pub(crate) fn parse<T: DeserializeOwned>(answer: &Answer) -> anyhow::Result<T> {
    let parsed = serde_json::from_value(answer.body.clone());
    parsed.context("the daemon's answer has an unknown shape")
}

/// Prints an answer: as it came with `json`, else as `text` shows it.
pub(crate) fn print_answer<T: DeserializeOwned>(
    answer: Result<Answer, ClientError>,
    json: bool,
    text: impl FnOnce(T) -> String,
) -> anyhow::Result<ExitStatus> {
    let answer = accepted(answer)?;
    if json {
        println!("{}", answer.body);
    } else {
        print!("{}", text(parse(&answer)?));
    }
    Ok(ExitStatus::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_name_the_socket_is_the_one_here_or_else_the_service_s() {
        let there = std::env::current_exe().expect("a file that exists");
        let absent = Path::new("/nonexistent/api.sock");
        let unnamed = ApiSocket { socket: None };
        assert!(!Path::new(SOCKET).exists(), "no daemon runs beside the sources");
        assert_eq!(unnamed.path(&there), there);
        assert_eq!(unnamed.path(absent), Path::new(SOCKET), "which the error names");
        let named = ApiSocket { socket: Some(absent.to_owned()) };
        assert_eq!(named.path(&there), absent);
    }
}
