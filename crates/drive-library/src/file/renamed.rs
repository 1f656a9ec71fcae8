//! The keys of drive files that were renamed. The earlier names are accepted for one version.

/// Each key that was renamed: its name, and the earlier one, which is its alias in the tables.
pub(super) const RENAMED: [(&str, &str); 14] = [
    ("track_slips", "turns"),
    ("track_skew_remainder", "track_skew_rest"),
    ("cylinder_skew_remainder", "cylinder_skew_rest"),
    ("decision_latency", "lead"),
    ("discard_after_read", "read_once"),
    ("write_back", "home"),
    ("read_disconnect", "read_release"),
    ("read_disconnect_after_write", "read_release_after_write"),
    ("write_disconnect", "write_release"),
    ("extra_disconnect", "detour"),
    ("disconnect", "release"),
    ("second_disconnect", "release_again"),
    ("second_reselect", "reselect_again"),
    ("seek_delay", "arm_later"),
];

/// The earlier name of a key, if it was renamed.
pub(super) fn earlier_name(key: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(name, _)| *name == key).map(|(_, earlier)| *earlier)
}

#[cfg(test)]
mod tests {
    use drive::{Choosing, Discipline, MediaCache, Spec};
    use units::{Angle, Duration, Sectors};

    use super::*;
    use crate::file::{parse_mechanical, to_toml};

    /// A drive whose file has every key that was renamed.
    fn with_all_keys() -> Spec {
        let mut spec = crate::find_mechanical("hp_c2247a").expect("in the library");
        assert!(spec.firmware.bus.extra_disconnect.is_some());
        let time = Duration::from_millis(15);
        spec.discipline = Discipline::ShortestPositioning(Choosing {
            age_limit: Duration::from_secs(1),
            stream_hold: Duration::ZERO,
            decision_latency: Duration::from_micros(7),
        });
        spec.queue_depth_max = 8;
        spec.firmware.media_cache = Some(MediaCache {
            run_max: Sectors(8),
            append: time,
            close: time,
            records_max: 9,
            write_back: time,
        });
        let zone = &mut spec.zones[0];
        zone.track_slips = vec![1, 3];
        (zone.track_skew_remainder, zone.cylinder_skew_remainder) = (Angle(5), Angle(6));
        spec
    }

    /// The line of `key` under its earlier name, if this is its line.
    fn under_earlier_name(line: &str, key: &str, earlier: &str) -> Option<String> {
        let header = format!(".{key}]");
        let value = line.strip_prefix(&format!("{key} = "));
        match value {
            Some(value) => Some(format!("{earlier} = {value}")),
            None => line.ends_with(&header).then(|| line.replace(key, earlier)),
        }
    }

    #[test]
    fn a_drive_with_the_earlier_name_of_a_key_is_the_same_drive() {
        let spec = with_all_keys();
        let text = to_toml(&spec);
        for (key, earlier) in RENAMED {
            let old = |line: &str| under_earlier_name(line, key, earlier);
            let lines: Vec<_> =
                text.lines().map(|line| old(line).unwrap_or_else(|| line.to_owned())).collect();
            let old = lines.join("\n");
            assert_ne!(old, text.trim_end(), "`{key}` is not in the file");
            let read = parse_mechanical(&old, "x.toml");
            assert_eq!(read.unwrap_or_else(|error| panic!("{earlier}: {error}")), spec);
        }
    }

    #[test]
    fn a_key_beside_its_earlier_name_is_refused_with_both_names() {
        let text = to_toml(&with_all_keys());
        for (key, earlier) in RENAMED {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let line = |line: &String| under_earlier_name(line, key, earlier);
            let at = lines.iter().position(|own| line(own).is_some()).expect("in the file");
            let second = line(&lines[at]).expect("its line").replace("= [", "= []");
            if second.starts_with('[') {
                let keys = lines[at + 1..].iter().take_while(|line| !line.is_empty());
                let table: Vec<_> = [second].into_iter().chain(keys.cloned()).collect();
                lines.extend(table);
            } else {
                lines.insert(at, second);
            }
            let error = parse_mechanical(&lines.join("\n"), "x.toml").expect_err("two names");
            let expected =
                format!("`{key}`: stands beside `{earlier}`, its earlier name, expected one");
            assert!(error.to_string().contains(&expected), "{error}");
        }
    }

    #[test]
    fn the_value_of_an_earlier_name_is_refused_on_its_line() {
        let text = to_toml(&with_all_keys()).replace("write_back = \"15ms\"", "home = \"0s\"");
        let line = 1 + text.lines().position(|line| line == "home = \"0s\"").expect("a line");
        let error = parse_mechanical(&text, "x.toml").expect_err("no time");
        assert_eq!((error.line(), error.field()), (line, "firmware.media_cache.write_back"));
    }
}
