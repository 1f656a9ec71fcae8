//! A profile's file: at every moment the old one or the new one, whole.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes `text` to `path`, in place of what is there.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    // Behind a link it is the file that is replaced.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = parent.unwrap_or(Path::new("."));
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut draft = std::ffi::OsString::from(".");
    draft.push(name);
    draft.push(".new");
    let draft = directory.join(draft);
    let written = (|| {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o644);
        let mut file = options.open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&draft, &path)?;
        File::open(directory)?.sync_all()
    })();
    written.inspect_err(|_| {
        // One that cannot be removed is overwritten by the next.
        let _ = std::fs::remove_file(&draft);
    })
}

/// Whether a profile could be written there: better known before ten minutes of measuring than after.
pub(super) fn is_writable(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = parent.unwrap_or(Path::new("."));
    let mut probe = std::ffi::OsString::from(".");
    probe.push(path.file_name().ok_or(io::ErrorKind::IsADirectory)?);
    probe.push(".new");
    let probe = directory.join(probe);
    OpenOptions::new().write(true).create(true).truncate(true).open(&probe)?;
    std::fs::remove_file(&probe)
}
