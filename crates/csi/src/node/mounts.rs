//! Mounts of this process's namespace, as the kernel shows them.

use tonic::Status;

use super::tools;

/// The option by which XFS does not ask for its UUID to be the only one.
const NO_UUID: &str = "nouuid";

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    point: String,
    source: String,
    file_system: String,
    is_read_only: bool,
    /// Whether it is not of a directory below the file system's root.
    is_whole: bool,
}

/// All mounts, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mounts(Vec<Mount>);

/// The kernel writes spaces and the like as octal numbers.
fn unescaped(text: &str) -> String {
    let octal = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    octal.iter().fold(text.to_owned(), |text, (code, letter)| text.replace(code, letter))
}

impl Mounts {
    pub(super) fn read() -> Result<Self, Status> {
        let text = std::fs::read_to_string("/proc/self/mountinfo")
            .map_err(|error| Status::internal(format!("mountinfo cannot be read: {error}")))?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let mount = |line: &str| {
            let (left, right) = line.split_once(" - ")?;
            let left: Vec<&str> = left.split(' ').collect();
            let right: Vec<&str> = right.split(' ').collect();
            let (root, point) = (*left.get(3)?, unescaped(left.get(4)?));
            let (file_system, source) = ((*right.first()?).to_owned(), unescaped(right.get(1)?));
            // A device that is bound to a file is a file of devtmpfs.
            let is_device = file_system == "devtmpfs" && root != "/";
            let is_whole = is_device || root == "/";
            let source = if is_device { format!("/dev{}", unescaped(root)) } else { source };
            let is_read_only = left.get(5)?.split(',').any(|option| option == "ro");
            Some(Mount { point, source, file_system, is_read_only, is_whole })
        };
        Self(text.lines().filter_map(mount).collect())
    }

    /// The last mount at a path hides those before it.
    fn at(&self, path: &str) -> Option<&Mount> {
        let path = path.trim_end_matches('/');
        self.0.iter().rev().find(|mount| mount.point == path)
    }

    /// The device that is mounted at a path.
    pub(super) fn source(&self, path: &str) -> Option<&String> {
        self.at(path).map(|mount| &mount.source)
    }

    /// The paths at which a device is visible, whole.
    pub(super) fn points(&self, device: &str) -> impl Iterator<Item = &str> {
        let of = move |mount: &&Mount| mount.source == device && mount.is_whole;
        self.0.iter().filter(of).map(|mount| mount.point.as_str())
    }

    /// The kind of the file system at a path.
    pub(super) fn file_system(&self, path: &str) -> Option<String> {
        self.at(path).map(|mount| mount.file_system.clone())
    }

    /// Whether what is mounted at a path is only read.
    pub(super) fn is_read_only(&self, path: &str) -> Option<bool> {
        self.at(path).map(|mount| mount.is_read_only)
    }
}

/// Mounts a device. XFS refuses the UUID of a file system that is mounted already, which that of a
/// clone is beside its source: it is not asked for.
pub(super) fn mount(
    device: &str,
    at: &str,
    file_system: &str,
    options: &[String],
) -> Result<(), Status> {
    let is_cloned = file_system == "xfs" && !options.iter().any(|option| option == NO_UUID);
    let all = options.iter().map(String::as_str).chain(is_cloned.then_some(NO_UUID));
    let options = all.collect::<Vec<_>>().join(",");
    let mut arguments = vec!["-t", file_system];
    if !options.is_empty() {
        arguments.extend(["-o", &options]);
    }
    arguments.extend(["--", device, at]);
    tools::expect("mount", &arguments).map(drop)
}

/// Makes `from` visible at `target`.
pub(super) fn bind(from: &str, target: &str, is_read_only: bool) -> Result<(), Status> {
    tools::expect("mount", &["--bind", "--", from, target])?;
    if !is_read_only {
        return Ok(());
    }
    let read_only = tools::expect("mount", &["-o", "remount,bind,ro", "--", target]);
    // A target that could be written would be found again and taken for finished.
    read_only.map(drop).or_else(|error| unmount(target).and(Err(error)))
}

/// Unmounts what was mounted last at a path.
pub(super) fn unmount(at: &str) -> Result<(), Status> {
    tools::expect("umount", &["--", at]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_their_last_source() {
        let mounts = Mounts::parse(
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
             30 22 43:0 / /var/a\\040b rw,relatime shared:1 - ext4 /dev/nbd0 rw\n\
             31 22 43:1 / /var/a\\040b ro,relatime - xfs /dev/nbd1 rw\n\
             32 22 0:5 /nbd3 /pods/block rw - devtmpfs devtmpfs rw\n\
             33 22 43:1 /sub /pods/sub rw - xfs /dev/nbd1 rw\n\
             odd\n",
        );
        assert_eq!(mounts.source("/var/a b/").map(String::as_str), Some("/dev/nbd1"));
        assert_eq!(mounts.file_system("/var/a b").as_deref(), Some("xfs"));
        assert_eq!(mounts.is_read_only("/var/a b"), Some(true));
        assert_eq!(mounts.source("/pods/block").map(String::as_str), Some("/dev/nbd3"));
        assert_eq!(mounts.source("/var"), None);
        let points = |device| mounts.points(device).collect::<Vec<_>>();
        assert_eq!(points("/dev/nbd3"), ["/pods/block"]);
        assert_eq!(points("/dev/nbd1"), ["/var/a b"], "a directory of it is no publication");
    }
}
