//! `[[disk]]` tables.

use super::*;

#[test]
fn without_a_drive() {
    assert_eq!(
        refused(&[], "[[disk]]\nname = \"d0\"\n"),
        format!(
            "plan.toml:1: [[disk]] \"d0\": field `drive`: found nothing, expected a drive of the \
             library ({}), \"memory\" or \"null\", or the path of a drive file (*.toml)",
            library()
        )
    );
}

#[test]
fn with_an_unknown_drive() {
    assert_eq!(
        refused(&[], "[[disk]]\nname = \"d0\"\ndrive = \"deathstar\"\n"),
        format!(
            "plan.toml:3: [[disk]] \"d0\": field `drive`: found `deathstar`, expected a drive of \
             the \
             library ({}), \"memory\" or \"null\", or the path of a drive file (*.toml)",
            library()
        )
    );
}

#[test]
fn with_a_missing_drive_file() {
    assert_eq!(
        refused(&[], "[[disk]]\nname = \"d0\"\ndrive = \"no/such.toml\"\n"),
        "plan.toml:3: [[disk]] \"d0\": field `drive`: found `no/such.toml`, expected a drive \
         file that \
         can be used (No such file or directory (os error 2))"
    );
}

#[test]
fn with_a_missing_real_disk() {
    assert_eq!(
        refused(&[], "[[disk]]\nname = \"d0\"\npath = \"no/such.img\"\n"),
        "plan.toml:3: [[disk]] \"d0\": field `path`: found `no/such.img`, expected a block \
         device or a file (No such \
         file or directory (os error 2))"
    );
    assert_eq!(
        refused(&[], "[[disk]]\nname = \"d0\"\npath = \"/dev/null\"\n"),
        "plan.toml:3: [[disk]] \"d0\": field `path`: found `/dev/null`, expected a block device \
         or a regular file"
    );
}

#[test]
fn with_a_real_disk_that_is_an_emulated_one_too() {
    assert_eq!(
        refused(&[], "[[disk]]\nname = \"d0\"\npath = \"/dev/sdb\"\ndrive = \"atlas10k\"\n"),
        "plan.toml:4: [[disk]] \"d0\": field `drive`: found `atlas10k`, expected no such field \
         beside `path`: the disk \
         is a real one"
    );
    assert_eq!(
        disk("buffered = true\n"),
        "plan.toml:1: [[disk]] \"d0\": field `buffered`: found `true`, expected no such field, \
         or a `path`"
    );
}

#[test]
fn with_an_unknown_policy() {
    assert_eq!(
        disk("policy = \"fair\"\n").split(", expected one of the policies ").collect::<Vec<_>>(),
        [
            "plan.toml:1: [[disk]] \"d0\": field `policy`: found `fair`",
            &engine::PolicyName::ALL.map(|name| format!("\"{name}\"")).join(", ")
        ]
    );
}

#[test]
fn with_a_depth_out_of_range() {
    for bad in ["0", "257", "-1", "99999999999999999999999"] {
        assert_eq!(
            disk(&format!("depth = {bad}\n")),
            format!(
                "plan.toml:1: [[disk]] \"d0\": field `depth`: found `{bad}`, expected {}",
                depths()
            )
        );
    }
}

#[test]
fn with_a_depth_that_is_not_an_integer() {
    assert_eq!(
        disk("depth = 1.5\n"),
        format!(
            "plan.toml:1: [[disk]] \"d0\": field `depth`: found `1.5`, expected {}, without quotes",
            depths()
        )
    );
}

#[test]
fn with_times_out_of_range() {
    for (field, bad, range) in [
        ("period", "99ms", "100ms to 10s"),
        ("period", "11s", "100ms to 10s"),
        ("batch", "1001ms", "0s to 1s (the period)"),
        ("linger", "21ms", "0s to 20ms"),
        ("estimate_sequential", "999ns", "1us to 1s (the period)"),
        ("estimate_random", "2s", "1us to 1s (the period)"),
        ("estimate_random", "20", "1us to 1s (the period)"),
    ] {
        assert_eq!(
            disk(&format!("{field} = \"{bad}\"\n")),
            format!(
                "plan.toml:1: [[disk]] \"d0\": field `{field}`: found `{bad}`, expected a time \
                 from {range}"
            )
        );
    }
}

#[test]
fn with_a_time_that_is_a_bare_number() {
    assert_eq!(
        disk("linger = 2\n"),
        "plan.toml:1: [[disk]] \"d0\": field `linger`: found `2`, expected a time from 0s to \
         20ms, in quotes"
    );
}

#[test]
fn with_no_path_to_their_data() {
    for (bad, shown) in [("", ""), ("a\\u0000b", "a\\0b")] {
        assert_eq!(
            disk(&format!("backing = \"{bad}\"\n")),
            format!(
                "plan.toml:1: [[disk]] \"d0\": field `backing`: found `{shown}`, expected a path \
                 of 1 to 4095 bytes, none of them zero"
            )
        );
    }
}

#[test]
fn two_on_one_file() {
    let second = "[[disk]]\nname = \"d1\"\ndrive = \"deskstar-34gxp\"\nbacking = \"./a.img\"\n";
    assert_eq!(
        error(&format!("{DISK}backing = \"a.img\"\n{second}")).to_string(),
        "plan.toml:8: [[disk]] \"d1\": field `backing`: found `./a.img`, expected a file of its \
         own \
         (line 4 has this one already)"
    );
}

#[test]
fn too_many() {
    let disks: String = (0..65).map(|_| "[[disk]]\n").collect();
    assert_eq!(
        error(&disks).to_string(),
        "plan.toml:65: field `disk`: found `65`, expected at most 64 tables `[[disk]]`"
    );
}

#[test]
fn with_an_unused_or_invalid_nominal_rate() {
    assert_eq!(
        disk("nominal_rate = \"68/s\"\n"),
        "plan.toml:1: [[disk]] \"d0\": field `nominal_rate`: found `68/s`, expected no such \
         field, or policy = \"throughput\""
    );
    assert_eq!(
        disk("policy = \"throughput\"\nnominal_rate = \"0.5/s\"\n"),
        "plan.toml:2: [[disk]] \"d0\": field `nominal_rate`: found `0.5/s`, expected a rate from \
         one in 1s (the period) to one in 1us"
    );
}

#[test]
fn with_an_unknown_estimator() {
    assert_eq!(
        disk("estimate = \"oracle\"\n"),
        "plan.toml:1: [[disk]] \"d0\": field `estimate`: found `oracle`, expected one of the \
         estimators \
         \"constants\", \"profile\", \"learned\""
    );
}

#[test]
fn that_are_slowed_to_no_speed_or_have_none() {
    let at = "1: [[disk]] \"d0\": field `slowed`";
    let expected = "a factor from 0.01 to 1, or \"1%\" to \"100%\"";
    for bad in ["0", "0.009", "1.01", "2", "-1", "nan"] {
        expect(&disk(&format!("slowed = {bad}\n")), at, &format!("`{bad}`"), expected);
    }
    expect(&disk("slowed = \"101%\"\n"), at, "`101%`", expected);
    expect(&disk("slowed = true\n"), at, "`true`", expected);
    let real = "[[disk]]\nname = \"d\"\npath = \"/dev/sdb\"\nslowed = 0.5\n";
    let expected = "no such field beside `path`: the disk is a real one";
    expect(&refused(&[], real), "4: [[disk]] \"d\": field `slowed`", "`0.5`", expected);
    let memory = "[[disk]]\nname = \"d\"\ndrive = \"null\"\nsize = \"1GiB\"\nslowed = 0.5\n";
    let expected = "no such field beside drive = \"null\"";
    expect(&refused(&[], memory), "5: [[disk]] \"d\": field `slowed`", "`0.5`", expected);
}

#[test]
fn whose_memory_for_read_ahead_is_no_size_or_beside_deadlines() {
    let at = "1: [[disk]] \"d0\": field `read_ahead`";
    let expected = "\"auto\", \"off\", or a size from 1MiB to 4GiB";
    for bad in ["on", "1KiB", "8GiB", "64"] {
        let found = format!("`{bad}`");
        expect(&disk(&format!("read_ahead = \"{bad}\"\n")), at, &found, expected);
    }
    let quoted = format!("{expected}, in quotes");
    expect(&disk("read_ahead = true\n"), at, "`true`", &quoted);
    let expected = "\"off\", or a policy without deadlines: each block of a stream is one read";
    for size in ["auto", "16MiB"] {
        let lines = format!("read_ahead = \"{size}\"\npolicy = \"edf\"\n");
        expect(&disk(&lines), at, &format!("`{size}`"), expected);
    }
}
