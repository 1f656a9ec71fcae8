//! `[nbd]`: limits, authentication and encryption of clients.

use std::path::Path;

use units::Bytes;

use crate::keys::NBD;
use crate::limits::{
    CLIENTS_MAX, CONNECTION_MEMORY_MAX, CONNECTION_MEMORY_MIN, CONNECTION_REQUESTS_MAX,
    CONNECTIONS_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX, PATIENCE_MAX, PATIENCE_MIN,
};
use crate::plan::{Nbd, Tls};
use input::{InputError, Table, Value};

fn count(value: &Value<'_>, most: usize) -> Result<usize, InputError> {
    let number = value.integer(1..=most as u64, "")?;
    Ok(usize::try_from(number).expect("it is at most one"))
}

pub(crate) fn check(top: &Table<'_>, base_dir: &Path) -> Result<Nbd, InputError> {
    let default = Nbd::default();
    let Some(table) = top.table("nbd", &NBD)? else { return Ok(default) };
    let counted = |key, most| table.value(key).map_or(Ok(most), |value| count(&value, most));
    let timed = |key, default| {
        let value = table.value(key);
        value.map_or(Ok(default), |value| value.duration(PATIENCE_MIN..=PATIENCE_MAX, ""))
    };
    let memory = table.value("memory").map_or(Ok(default.memory), |value| {
        let found: Bytes = value.quantity("a size such as 16MiB")?;
        let fits = (CONNECTION_MEMORY_MIN..=CONNECTION_MEMORY_MAX).contains(&found);
        if fits { Ok(found) } else { Err(value.refuse("a size from 1MiB to 64MiB")) }
    });
    Ok(Nbd {
        list: table.value("list").map_or(Ok(true), |value| value.boolean())?,
        connections: counted("connections", CONNECTIONS_MAX)?,
        volume_connections: counted("volume_connections", CONNECTIONS_MAX)?,
        requests: counted("requests", CONNECTION_REQUESTS_MAX)?,
        memory: memory?,
        handshake: timed("handshake", default.handshake)?,
        stall: timed("stall", default.stall)?,
        tls: tls(&table, base_dir)?,
    })
}

fn tls(table: &Table<'_>, base_dir: &Path) -> Result<Option<Tls>, InputError> {
    const MODES: &str = "\"off\", \"allowed\" or \"required\"";
    const FILES: [&str; 3] = ["certificate", "key", "client_ca"];
    let mode = table.value("tls");
    let required = match mode.as_ref().map_or(Ok("off"), |value| value.text(MODES))? {
        "required" => true,
        "allowed" => false,
        "off" => {
            // An unused certificate is a mistake, and is reported at once.
            let unused = FILES.iter().find_map(|key| table.value(key));
            let expected = "no file: `tls` is off; or tls = \"required\"";
            return unused.map_or(Ok(None), |value| Err(value.refuse(expected)));
        }
        _ => return Err(mode.expect("it is not the default").refuse(MODES)),
    };
    let path = |value: Value<'_>| {
        let expected = "the path of a file in PEM";
        let text = value.text(expected)?;
        let fits = !text.is_empty() && text.len() <= PATH_BYTES_MAX && !text.contains('\0');
        if fits { Ok(base_dir.join(text)) } else { Err(value.refuse(expected)) }
    };
    let pem = |key| table.require(key, "the path of a file in PEM, for TLS");
    Ok(Some(Tls {
        required,
        certificate: path(pem("certificate")?)?,
        key: path(pem("key")?)?,
        client_ca: table.value("client_ca").map(path).transpose()?,
    }))
}

/// A volume's `clients`: by the subject of a certificate or by its fingerprint. `None`: all
/// clients.
pub(crate) fn clients(table: &Table<'_>) -> Result<Option<Vec<String>>, InputError> {
    const EXPECTED: &str = "`CN=NAME`, or `sha256:` and a certificate's fingerprint";
    let Some(value) = table.value("clients") else { return Ok(None) };
    let all = value.texts(CLIENTS_MAX, EXPECTED)?;
    let checked = all.into_iter().map(|(value, text)| {
        let known = match text.split_once(['=', ':']) {
            Some(("CN", name)) => !name.is_empty() && name.len() <= NAME_BYTES_MAX,
            Some(("sha256", digits)) if text.starts_with("sha256:") => {
                let digits: Vec<char> = digits.chars().filter(|c| *c != ':').collect();
                digits.len() == 64 && digits.iter().all(char::is_ascii_hexdigit)
            }
            _ => false,
        };
        // `CN:` and `sha256=` are not accepted.
        let known = known && !text.starts_with("CN:");
        if known { Ok(text.to_owned()) } else { Err(value.refuse(EXPECTED)) }
    });
    checked.collect::<Result<_, _>>().map(Some)
}
