//! The file of a profile, which is replaced atomically.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use console::bad_input;
use drive_library::profile::ProfileFile;

/// Replaces the content of `path` by `text`.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    // A symbolic link stays; the file that it names is replaced.
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
        // A draft that cannot be removed is overwritten by the next one.
        let _ = std::fs::remove_file(&draft);
    })
}

/// Checks that a profile can be written to `path`, before ten minutes of measurement.
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

/// Reads a profile.
pub(super) fn read(path: &Path) -> anyhow::Result<ProfileFile> {
    ProfileFile::read(path).map_err(bad_input)
}
