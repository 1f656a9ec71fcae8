//! The figure of `spindle demo`: the disk time of each volume, and the disk time that its reserve
//! accrues.

use std::path::{Path, PathBuf};

use anyhow::Context;
use console::bad_input;
use plot::{Line, Plot};

/// Reads the CSV file of a demo, and writes its figure into `out`.
pub(super) fn write(csv: &Path, out: &Path) -> anyhow::Result<PathBuf> {
    let text = std::fs::read_to_string(csv)
        .map_err(|error| bad_input(format!("{}: {error}", csv.display())))?;
    let lines = lines(&text).map_err(|why| bad_input(format!("{}: {why}", csv.display())))?;
    let plot = Plot {
        caption: "Progress of the live NBD clients on one emulated deskstar-34gxp".into(),
        x: "time, s".into(),
        y: "disk time had, s".into(),
        lines,
        ..Plot::default()
    };
    let path = out.join("demo.svg");
    plot.write(&path).with_context(|| format!("{}", path.display()))?;
    Ok(path)
}

/// One line for each column but the first, which is the time.
fn lines(csv: &str) -> Result<Vec<Line>, String> {
    let mut rows = csv.lines();
    let head: Vec<&str> = rows.next().unwrap_or_default().split(',').collect();
    let [time, names @ ..] = &head[..] else { return Err("expected a head".to_owned()) };
    if *time != "time_s" {
        return Err(format!("found `{time}`, expected the column `time_s` first"));
    }
    let line = |name: &&str| {
        let volume = name.strip_suffix("_s").unwrap_or(name);
        let (name, dashed) = match volume.strip_suffix("_reserved") {
            Some(volume) => (format!("{volume}, reserved"), true),
            None => (format!("{volume}, had"), false),
        };
        Line { name, points: Vec::new(), dashed }
    };
    let mut lines: Vec<Line> = names.iter().map(line).collect();
    for (number, row) in (2..).zip(rows) {
        let cells: Result<Vec<f64>, _> = row.split(',').map(str::parse).collect();
        let cells = cells.map_err(|_| format!("line {number}: expected numbers"))?;
        let [time, values @ ..] = &cells[..] else { continue };
        if values.len() != lines.len() {
            return Err(format!("line {number}: expected {} cells", lines.len() + 1));
        }
        for (line, value) in lines.iter_mut().zip(values) {
            line.points.push((*time, *value));
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_is_a_line_and_a_reserve_is_dashed() {
        let lines = lines("time_s,a_s,a_reserved_s\n0,0,0\n2,1.5,1.4\n").expect("sound");
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].name.as_str(), lines[0].dashed), ("a, had", false));
        assert_eq!((lines[1].name.as_str(), lines[1].dashed), ("a, reserved", true));
        assert_eq!(lines[1].points, [(0.0, 0.0), (2.0, 1.4)]);
    }

    #[test]
    fn what_is_no_table_of_a_demo_is_refused() {
        for text in ["", "x,y\n1,2\n", "time_s,a_s\n1\n", "time_s,a_s\n1,x\n"] {
            lines(text).expect_err(text);
        }
    }
}
