//! The lines that tests/guest/peers.sh writes: a comment with the setting, then one line a client.

use core::fmt;
use core::str::FromStr;

/// What one client had.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) scheduler: String,
    pub(super) cell: String,
    /// The client's number in its cell.
    pub(super) client: u32,
    pub(super) share_percent: u32,
    pub(super) load: String,
    pub(super) requests_per_s: f64,
    pub(super) p99_ms: f64,
}

/// A line that is none.
#[derive(Debug, PartialEq)]
pub(super) struct ReadError {
    file: String,
    line: usize,
    found: String,
    expected: &'static str,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, found, expected } = self;
        write!(f, "{file}:{line}: `{found}`: expected {expected}")
    }
}

const LINE: &str = "`scheduler cell client share load requests/s p99-in-ms`";

/// The setting, and all clients in the order of the lines.
///
/// # Errors
/// Names the first line that is none.
pub(super) fn read(text: &str, file: &str) -> Result<(String, Vec<Measured>), ReadError> {
    let mut setting = String::new();
    let mut all = Vec::new();
    for (line, found) in (1..).zip(text.lines()) {
        if let Some(comment) = found.strip_prefix('#') {
            comment.trim().clone_into(&mut setting);
            continue;
        }
        let parsed = parse(found).ok_or_else(|| ReadError {
            file: file.to_owned(),
            line,
            found: found.to_owned(),
            expected: LINE,
        })?;
        all.push(parsed);
    }
    Ok((setting, all))
}

fn parse(line: &str) -> Option<Measured> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [scheduler, cell, client, share, load, requests, p99] = words[..] else { return None };
    Some(Measured {
        scheduler: scheduler.to_owned(),
        cell: cell.to_owned(),
        client: client.parse().ok()?,
        share_percent: share.parse().ok().filter(|share| (1..=100).contains(share))?,
        load: load.to_owned(),
        requests_per_s: amount(requests)?,
        p99_ms: amount(p99)?,
    })
}

fn amount(text: &str) -> Option<f64> {
    f64::from_str(text).ok().filter(|amount| amount.is_finite() && *amount >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_none_is_refused_with_its_number() {
        for line in [
            "none two 0 50 random16 190.0",
            "none two 0 150 random16 190.0 1.0",
            "none two 0 50 random16 nan 1.0",
            "none two 0 50 random16 -1 1.0",
            "none two x 50 random16 1 1.0",
        ] {
            let error = read(&format!("# setting\n{line}"), "results").expect_err(line);
            assert_eq!(error.to_string(), format!("results:2: `{line}`: expected {LINE}"));
        }
    }
}
