//! The properties of a machine, read from a tree of files like the kernel's.

use std::fs;
use std::path::Path;

use spindle_host::{BlockDevice, DeviceKind, IoUringPolicy, LimitValue, Machine, WriteCache};
use units::{Bytes, Duration};

fn write(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
}

#[test]
fn block_devices_are_read_with_what_the_kernel_says_of_them() {
    let root = tempfile::tempdir().expect("a directory");
    write(
        root.path(),
        &[
            ("sys/block/sdb/size", "15628053168\n"),
            ("sys/block/sdb/queue/rotational", "1\n"),
            ("sys/block/sdb/queue/scheduler", "none [mq-deadline] bfq\n"),
            ("sys/block/sdb/queue/write_cache", "write back\n"),
            ("sys/block/sdb/device/queue_depth", "32\n"),
            ("sys/block/sdb/device/model", "HUS728T8TALE6L4 \n"),
            ("sys/block/sdb/sdb1/partition", "1\n"),
            ("sys/block/sdb/holders/dm-0/dev", "253:0\n"),
            ("sys/block/loop0/size", "0\n"),
            ("sys/block/ram0/size", "8192\n"),
        ],
    );
    let devices = Machine::at(root.path()).block_devices();
    let expected = BlockDevice {
        name: "sdb".to_owned(),
        path: "/dev/sdb".into(),
        model: Some("HUS728T8TALE6L4".to_owned()),
        capacity: Bytes(15_628_053_168 * 512),
        is_rotational: true,
        is_read_only: false,
        kind: DeviceKind::Fixed,
        scheduler: Some("mq-deadline".to_owned()),
        write_cache: Some(WriteCache::WriteBack),
        queue_depth: Some(32),
        partitions: vec!["sdb1".to_owned()],
        holders: vec!["dm-0".to_owned()],
    };
    assert_eq!(devices.len(), 2, "an empty loop device is none: {devices:?}");
    assert_eq!(devices[1], expected);
    let ram = &devices[0];
    assert!(
        ram.kind == DeviceKind::Virtual && !ram.is_rotational && ram.scheduler.is_none(),
        "{ram:?}"
    );
}

#[test]
fn a_machine_that_says_nothing_has_no_properties() {
    let root = tempfile::tempdir().expect("a directory");
    let machine = Machine::at(root.path());
    assert_eq!(machine.block_devices(), Vec::new());
    assert_eq!(machine.exit_latency_max(), None);
    assert_eq!(machine.open_files_max(), None);
    assert_eq!(machine.io_uring_policy(), IoUringPolicy::All);
}

#[test]
fn limits_and_sleep_states_are_read() {
    let root = tempfile::tempdir().expect("a directory");
    write(
        root.path(),
        &[
            ("proc/sys/kernel/io_uring_disabled", "2\n"),
            (
                "proc/self/limits",
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max open files            1024                 524288               files     \n\
                 Max locked memory         unlimited            unlimited            bytes     \n",
            ),
            ("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0\n"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "2\n"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state2/latency", "133\n"),
        ],
    );
    let machine = Machine::at(root.path());
    assert_eq!(machine.io_uring_policy(), IoUringPolicy::Disabled);
    assert_eq!(machine.open_files_max(), Some(LimitValue::At(1_024)));
    assert_eq!(machine.locked_memory_max(), Some(LimitValue::Unlimited));
    assert_eq!(machine.exit_latency_max(), Some(Duration::from_micros(133)));
}
