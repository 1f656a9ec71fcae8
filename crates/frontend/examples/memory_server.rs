//! Serves exports from memory: `memory_server ADDRESS [NAME=SIZE[:ro]]...`, until its standard input ends.
//!
//! The disk behind it answers within `submit`, on the server's own thread, so that what is measured against
//! it is the frontend alone.

use std::io::Read;
use std::process::ExitCode;
use std::sync::Arc;

use spindle_frontend::{
    Address, Errno, Export, ExportId, Exports, Handle, Reply, Request, Server, Sink,
};
use units::{Bytes, Instant, Op};

struct Fixed(Vec<Export>);

impl Exports for Fixed {
    fn list(&self) -> Vec<Export> {
        self.0.clone()
    }

    fn open(&self, name: &str) -> Option<Export> {
        self.0.iter().find(|export| export.name == name).cloned()
    }
}

struct Memory {
    disks: Vec<Vec<u8>>,
    handle: Handle,
    replies: Vec<Reply>,
}

impl Memory {
    fn perform(&mut self, request: &Request) -> Result<Vec<u8>, Errno> {
        let index = usize::try_from(request.export.0).map_err(|_| Errno::Io)?;
        let disk = self.disks.get_mut(index).ok_or(Errno::Io)?;
        let extent = request.operation.extent;
        let start = usize::try_from(extent.start.0 * units::SECTOR_BYTES).map_err(|_| Errno::Io)?;
        let range = disk.get_mut(start..start + extent.len.bytes_usize()).ok_or(Errno::Io)?;
        match request.operation.op {
            Op::Read => return Ok(range.to_vec()),
            Op::Write => range.copy_from_slice(&request.data),
            Op::WriteZeroes | Op::Trim => range.fill(0),

            Op::Flush | Op::Seek => {}
        }
        Ok(Vec::new())
    }
}

impl Sink for Memory {
    fn submit(&mut self, request: Request) {
        let result = self.perform(&request);
        self.replies.push(Reply { id: request.id, result });
    }

    fn submitted_batch_end(&mut self) {
        self.handle.reply_many(&mut self.replies);
    }
}

fn export(index: usize, text: &str) -> Result<Export, String> {
    let expected = || format!("found `{text}`, expected NAME=SIZE or NAME=SIZE:ro");
    let (name, size) = text.split_once('=').ok_or_else(expected)?;
    let (size, read_only) = size.strip_suffix(":ro").map_or((size, false), |size| (size, true));
    let size: Bytes = size.parse().map_err(|error| format!("{name}: {error}"))?;
    let id = ExportId(u32::try_from(index).map_err(|_| expected())?);
    let description = format!("{size} of memory");
    Ok(Export { description, read_only, ..Export::new(id, name, size) })
}

fn serve(arguments: &[String]) -> Result<(), String> {
    let [address, exports @ ..] = arguments else {
        return Err("usage: memory_server ADDRESS [NAME=SIZE[:ro]]...".into());
    };
    let exports: Vec<_> =
        exports.iter().enumerate().map(|(i, text)| export(i, text)).collect::<Result<_, _>>()?;
    let address: Address = address.parse().map_err(|error| format!("{error}"))?;
    let server = Server::bind(&[address]).map_err(|error| error.to_string())?;
    let size = |export: &Export| usize::try_from(export.size.0).unwrap_or(usize::MAX);
    let disks = exports.iter().map(|export| vec![0; size(export)]).collect();
    let handle = server.handle();
    let mut sink = Memory { disks, handle: handle.clone(), replies: Vec::new() };
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        handle.stop();
    });
    // Time stands still here, so that no deadline is ever missed: only a daemon has a clock to read.
    let clock = || Instant::ZERO;
    server.run(Arc::new(Fixed(exports)), &mut sink, &clock).map_err(|error| error.to_string())
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
