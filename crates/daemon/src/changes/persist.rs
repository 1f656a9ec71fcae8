//! Replaces the content of a file atomically and durably.
//!
//! Invariant: at every instant the file has either the old content or the new one; when [`replace`]
//! has returned, it has the new one, even after a power failure.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Why the file was not replaced.
#[derive(Debug)]
pub(crate) enum PersistError {
    /// It was changed since it was read.
    Edited,
    /// The system's error.
    Io(io::Error),
}

impl From<io::Error> for PersistError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Replaces the content `before` of a file with `after`.
pub(crate) fn replace(path: &Path, before: &str, after: &str) -> Result<(), PersistError> {
    // The target of a link is replaced, not the link.
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
        // A draft that cannot be removed is overwritten by the next change.
        let _ = std::fs::remove_file(&draft);
    })?;
    // The rename is durable when the directory is.
    File::open(directory)?.sync_all()?;
    Ok(())
}

fn write(draft: &Path, path: &Path, content: &str) -> io::Result<()> {
    // The draft is never readable for more users than the old file.
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
    fn an_edited_file_is_left_as_it_is() {
        let directory = tempfile::tempdir().expect("a scratch directory");
        let path = directory.path().join("plan.toml");
        std::fs::write(&path, "edited").expect("a scratch file");
        let error =
            replace(&path, "read", "changed").expect_err("its content is not what was read");
        assert!(matches!(error, PersistError::Edited), "{error:?}");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "edited");
    }

    #[test]
    fn a_link_and_its_target_s_mode_are_preserved() {
        let directory = tempfile::tempdir().expect("a scratch directory");
        let (real, link) = (directory.path().join("real"), directory.path().join("plan.toml"));
        std::fs::write(&real, "old").expect("a scratch file");
        std::fs::set_permissions(&real, PermissionsExt::from_mode(0o640)).expect("ours");
        symlink(&real, &link).expect("a link");
        replace(&link, "old", "new").expect("its content is what was read");
        assert_eq!(std::fs::read_to_string(&real).expect("there"), "new");
        assert!(std::fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(std::fs::metadata(&real).expect("there").permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(directory.path()).expect("there").count(), 2);
    }
}
