//! A node whose volumes are mounted, and what is left of them.
//!
//! `SPINDLE_CSI_ATTACH` is how volumes become devices: `nbdfuse` unless given, `nbd` or `ublk`
//! where the kernel has those.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use testkit::{Scratch, Server};

use super::caller::{Caller, Claim};
use super::{DriverProcess, cannot_mount, create_pool, serve};

/// How volumes become devices.
pub(crate) fn attach() -> String {
    std::env::var("SPINDLE_CSI_ATTACH").unwrap_or_else(|_| "nbdfuse".to_owned())
}

/// The node, with a daemon that serves.
pub(crate) struct Node {
    pub(crate) scratch: Scratch,
    pub(crate) server: Option<Server>,
    /// The parts of the cluster that call its driver.
    pub(crate) caller: Caller,
}

impl Node {
    /// A node, or nothing with a notice where volumes cannot be mounted.
    pub(crate) fn new(what: &str) -> Option<Self> {
        if let Some(why) = cannot_mount() {
            eprintln!("SKIPPED: {why}: {what} was NOT tried");
            return None;
        }
        let scratch = Scratch::new();
        create_pool(&scratch);
        let server = Some(serve(&scratch));
        let caller = Caller::new(scratch.path());
        Some(Self { scratch, server, caller })
    }

    pub(crate) fn driver(&self, options: &[String]) -> DriverProcess {
        DriverProcess::start_with(self.scratch.path(), ("node-1", &attach()), options)
    }

    /// The device of a volume that is published as one.
    pub(crate) fn device(&self, claim: &Claim) -> String {
        let number = std::fs::metadata(self.caller.target(claim)).expect("it is published").rdev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
        let name = link.expect("a device").file_name().expect("its name").to_owned();
        Path::new("/dev").join(name).display().to_string()
    }

    fn mounts(&self) -> Vec<String> {
        let all = std::fs::read_to_string("/proc/self/mountinfo").expect("proc is mounted");
        let here = self.scratch.path().display().to_string();
        let points = all.lines().filter_map(|line| line.split(' ').nth(4));
        points.filter(|point| point.starts_with(&here)).map(str::to_owned).collect()
    }

    fn loops(&self) -> Vec<String> {
        let shown = Command::new("losetup").args(["-n", "-O", "NAME,BACK-FILE"]).output();
        // Without `losetup` there are none of the driver's.
        let shown = shown.map(|shown| String::from_utf8_lossy(&shown.stdout).into_owned());
        let here = self.scratch.path().display().to_string();
        let shown = shown.unwrap_or_default();
        let of =
            |line: &str| line.contains(&here).then(|| line.split(' ').next().map(str::to_owned));
        shown.lines().filter_map(of).flatten().collect()
    }

    /// Nothing is mounted, attached or connected any more.
    pub(crate) fn check_nothing_left(&self) {
        assert_eq!(self.mounts(), [""; 0], "mounts");
        assert_eq!(self.loops(), [""; 0], "loop devices");
        let is_open = |one: &api::Volume| one.connections > 0 || one.block_device.is_some();
        let open = super::volumes(&self.scratch).into_iter().filter(is_open);
        assert_eq!(open.map(|one| one.name).collect::<Vec<_>>(), [""; 0], "devices");
    }
}

impl Drop for Node {
    /// A test that fails leaves no mounts and devices.
    fn drop(&mut self) {
        let run = |tool: &str, arguments: &[&str]| {
            // What is gone already needs nothing.
            let _ = Command::new(tool).args(arguments).output();
        };
        self.mounts().iter().rev().filter(|at| !at.contains("/fuse/")).for_each(|at| {
            run("umount", &["-l", at]);
        });
        self.loops().iter().for_each(|device| run("losetup", &["-d", device]));
        self.mounts().iter().rev().for_each(|at| run("umount", &["-l", at]));
    }
}
