//! Serves exports from memory: `memory_server ADDRESS [--null] [--hidden] [--tls DIRECTORY]
//! [NAME=SIZE[:ro]]...`, until its standard input ends. With `--null` nothing is kept. The
//! directory holds `server.crt`, `server.key` and `ca.crt`, in PEM; TLS is then required, with a
//! client's certificate signed by the last.
//!
//! The disk answers within `submit`, on the server's own thread: measurements against it are of the
//! NBD server alone.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use spindle_nbd::memory::{FixedExports, MemoryHandler, NullHandler};
use spindle_nbd::{Address, Export, ExportId, Listing, Server, Settings, Tls, TlsFiles};
use units::{Bytes, Instant};

const USAGE: &str =
    "usage: memory_server ADDRESS [--null] [--hidden] [--tls DIRECTORY] [NAME=SIZE[:ro]]...";

fn export(index: usize, text: &str) -> Result<Export, String> {
    let expected = || format!("found `{text}`, expected NAME=SIZE or NAME=SIZE:ro");
    let (name, size) = text.split_once('=').ok_or_else(expected)?;
    let (size, read_only) = size.strip_suffix(":ro").map_or((size, false), |size| (size, true));
    let size: Bytes = size.parse().map_err(|error| format!("{name}: {error}"))?;
    let id = ExportId(u32::try_from(index).map_err(|_| expected())?);
    let description = format!("{size} of memory");
    let fast_zero = true;
    Ok(Export { description, read_only, fast_zero, ..Export::new(id, name, size) })
}

fn tls(directory: &str) -> Result<Tls, String> {
    let file = |name: &str| Path::new(directory).join(name);
    let files = TlsFiles {
        certificate: file("server.crt"),
        key: file("server.key"),
        client_authorities: Some(file("ca.crt")),
    };
    Tls::read(&files, true).map_err(|error| error.to_string())
}

fn serve(arguments: &[String]) -> Result<(), String> {
    let [address, arguments @ ..] = arguments else { return Err(USAGE.into()) };
    let (mut settings, mut null, mut exports) = (Settings::default(), false, Vec::new());
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--null" => null = true,
            "--hidden" => settings.listing = Listing::Hidden,
            "--tls" => settings.tls = Some(tls(arguments.next().ok_or(USAGE)?)?),
            text => exports.push(export(exports.len(), text)?),
        }
    }
    let exports = FixedExports(exports);
    let address: Address = address.parse().map_err(|error| format!("{error}"))?;
    let server = Server::bind(&[address]).map_err(|error| error.to_string())?;
    let server = server.with_settings(settings)?;
    let mut memory = MemoryHandler::new(
        &FixedExports(if null { Vec::new() } else { exports.0.clone() }),
        &server,
    );
    let handle = server.handle();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        handle.stop();
    });
    // The clock stands still, so that no timeout expires.
    let clock = || Instant::ZERO;
    let served = if null {
        server.run(&exports, &mut NullHandler::default(), &clock)
    } else {
        server.run(&exports, &mut memory, &clock)
    };
    served.map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match serve(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}
