//! A file's content replaced, whole or not at all, and for good before anybody is told.
//!
//! Invariant: at every moment the file's name stands for the old content or the new one, whole; when [`replace`] has
//! returned, for the new one, also after the power has failed.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Why the file is as it was.
#[derive(Debug)]
pub(crate) enum PersistError {
    /// Somebody has changed it since it was read.
    Edited,
    /// The system said no.
    Io(io::Error),
}

impl From<io::Error> for PersistError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Replaces `before`, which is what the file holds, with `after`.
pub(crate) fn replace(path: &Path, before: &str, after: &str) -> Result<(), PersistError> {
    // Behind a link it is the file that is replaced.
    let path = path.canonicalize()?;
    if std::fs::read(&path)? != before.as_bytes() {
        return Err(PersistError::Edited);
    }
    if before == after {
        return Ok(());
    }
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
    };
    let mut draft = std::ffi::OsString::from(".");
    draft.push(name);
    draft.push(".new");
    let draft = directory.join(draft);
    write(&draft, &path, after).inspect_err(|_| {
        // One that cannot be removed is overwritten by the next change.
        let _ = std::fs::remove_file(&draft);
    })?;
    // The name is as lasting as the directory that holds it.
    File::open(directory)?.sync_all()?;
    Ok(())
}

fn write(draft: &Path, path: &Path, content: &str) -> io::Result<()> {
    // Read by whoever may read the old one, from the first byte on.
    let permissions = std::fs::metadata(path)?.permissions();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(draft)?;
    file.write_all(content.as_bytes())?;
    file.set_permissions(permissions)?;
    file.sync_all()?;
    std::fs::rename(draft, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_that_somebody_edited_is_left_as_it_is() {
        let directory = tempfile::tempdir().expect("a scratch directory");
        let path = directory.path().join("plan.toml");
        std::fs::write(&path, "edited").expect("a scratch file");
        let error = replace(&path, "read", "changed").expect_err("it is not what was read");
        assert!(matches!(error, PersistError::Edited), "{error:?}");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "edited");
    }

    #[test]
    fn a_link_stays_one_and_the_mode_stays_too() {
        let directory = tempfile::tempdir().expect("a scratch directory");
        let (real, link) = (directory.path().join("real"), directory.path().join("plan.toml"));
        std::fs::write(&real, "old").expect("a scratch file");
        std::fs::set_permissions(&real, PermissionsExt::from_mode(0o640)).expect("ours");
        symlink(&real, &link).expect("a link");
        replace(&link, "old", "new").expect("it is what was read");
        assert_eq!(std::fs::read_to_string(&real).expect("there"), "new");
        assert!(std::fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(std::fs::metadata(&real).expect("there").permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(directory.path()).expect("there").count(), 2);
    }
}
