//! Files that cannot be read, or not as a config.

use super::*;

fn scratch(name: &str, bytes: &[u8]) -> std::path::PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).expect("a scratch file");
    path
}

#[test]
fn that_does_not_exist_has_no_line() {
    let error = Plan::read(Path::new("no/such.toml")).expect_err("is not there");
    assert_eq!(error.line(), None);
    assert_eq!(
        error.to_string(),
        "no/such.toml: found `No such file or directory (os error 2)`, expected a file that can \
         be read"
    );
}

#[test]
fn that_never_ends_is_not_read_whole() {
    assert_eq!(
        Plan::read(Path::new("/dev/zero")).expect_err("is too big").to_string(),
        "/dev/zero: found `over 4194304 bytes`, expected at most 4MiB"
    );
}

#[test]
fn that_is_not_text() {
    let path = scratch("latin1.toml", b"seed = 1\n# caf\xe9\n");
    assert_eq!(
        Plan::read(&path).expect_err("is no text").to_string(),
        format!("{}:2: found `\\xe9`, expected text in UTF-8", path.display())
    );
}

#[test]
fn with_an_invalid_drive_file_beside_it() {
    scratch("broken-drive.toml", b"this is no drive");
    let path = scratch("plan.toml", b"[[disk]]\nname = \"d0\"\ndrive = \"broken-drive.toml\"\n");
    let message = Plan::read(&path).expect_err("is no drive").to_string();
    let start = format!(
        "{}:3: [[disk]] \"d0\": field `drive`: found `broken-drive.toml`, expected a drive file \
         that \
         can be used (",
        path.display()
    );
    assert!(message.starts_with(&start), "{message}");
    assert!(message.lines().count() == 1, "{message}");
}

#[test]
fn that_two_disks_share_through_a_link() {
    let image = scratch("shared.img", b"");
    let link = image.with_file_name("shared-link.img");
    // The link may exist from an earlier run.
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(&image, &link).expect("a scratch link");
    let second =
        "[[disk]]\nname = \"d1\"\ndrive = \"deskstar-34gxp\"\nbacking = \"shared-link.img\"\n";
    let path =
        scratch("linked.toml", format!("{DISK}backing = \"shared.img\"\n{second}").as_bytes());
    assert_eq!(
        Plan::read(&path).expect_err("is one file").to_string(),
        format!(
            "{}:8: [[disk]] \"d1\": field `backing`: found `shared-link.img`, expected a file of \
             its own \
             (line 4 has this one already)",
            path.display()
        )
    );
}
