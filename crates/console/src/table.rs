//! Tables for people.

use engine::PreemptionStats;
use stats::VolumeReport;
use units::Bytes;

/// Rows of cells under a head, in columns as wide as they need to be. The first column is words,
/// the rest numbers.
pub fn text(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (column, cell) in cells.enumerate() {
            let width = widths[column];
            let words = column == 0;
            let cell = if words { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
            line += &cell;
        }
        line.trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut head.iter().copied());
    for row in rows {
        text += &line(&mut row.iter().map(String::as_str));
    }
    text
}

/// What each volume was promised and got.
pub fn volumes(volumes: &[VolumeReport]) -> String {
    let head =
        ["volume", "reserve", "share", "requests", "IOPS", "MB/s", "mean ms", "p50", "p99", "max"];
    let row = |volume: &VolumeReport| {
        let latency = volume.latency_ms;
        vec![
            volume.name.clone(),
            format!("{:.1} %", volume.reserve * 100.0),
            format!("{:.2} %", volume.disk_time_share * 100.0),
            volume.requests.to_string(),
            format!("{:.1}", volume.iops),
            format!("{:.2}", volume.bytes_per_s / 1e6),
            format!("{:.2}", latency.mean),
            format!("{:.2}", latency.p50),
            format!("{:.2}", latency.p99),
            format!("{:.2}", latency.max),
        ]
    };
    text(&head, &volumes.iter().map(row).collect::<Vec<_>>())
}

/// The deadlines of each volume that has any: blocks of a stream, or requests of a bounded latency;
/// empty without such a volume.
pub fn deadlines(volumes: &[VolumeReport]) -> String {
    let head = ["volume", "deadlines of", "met", "missed", "latest ms", "beyond"];
    let row = |volume: &VolumeReport| {
        let (of, met, missed, latest, beyond) = match (volume.deadlines, volume.bounded_latency) {
            (Some(stream), _) => {
                let beyond = stream.bytes.map(|bytes| Bytes(bytes.beyond()).to_string());
                let latest = (stream.missed > 0).then_some(stream.lateness_max_ms);
                ("blocks", stream.met, stream.missed, latest, beyond)
            }
            (None, Some(bounded)) => {
                let met = bounded.answered - bounded.late;
                ("requests", met, bounded.late, None, Some(bounded.beyond.to_string()))
            }
            (None, None) => return None,
        };
        let latest = latest.map(|latest| format!("{latest:.2}"));
        let [latest, beyond] = [latest, beyond].map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
        let [met, missed] = [met, missed].map(|count| count.to_string());
        Some(vec![volume.name.clone(), of.to_owned(), met, missed, latest, beyond])
    };
    let rows: Vec<_> = volumes.iter().filter_map(row).collect();
    if rows.is_empty() { String::new() } else { text(&head, &rows) }
}

/// The worth of each reserve for which it was measured, with both of its rates.
pub fn worths(volumes: &[VolumeReport]) -> String {
    let head =
        ["volume", "reserve", "worth", "rate", "alone", "p50 ms", "alone", "p99 ms", "alone"];
    let row = |volume: &VolumeReport| {
        let worth = volume.worth?;
        let (latency, alone) = (worth.latency_ms, worth.reference_latency_ms);
        Some(vec![
            volume.name.clone(),
            format!("{:.1} %", volume.reserve * 100.0),
            format!("{:.2}", worth.value),
            format!("{:.1}/s", worth.rate),
            format!("{:.1}/s", worth.reference_rate),
            format!("{:.2}", latency.p50),
            format!("{:.2}", alone.p50),
            format!("{:.2}", latency.p99),
            format!("{:.2}", alone.p99),
        ])
    };
    text(&head, &volumes.iter().filter_map(row).collect::<Vec<_>>())
}

/// What preemptible execution did on a disk, in a line.
pub fn executed(executed: &PreemptionStats) -> String {
    let PreemptionStats {
        preemptions: preempted,
        jit_transfers: timed,
        missed,
        split_seeks: split,
        ..
    } = executed;
    let just_in_time = if executed.jit_enabled { "on" } else { "off" };
    format!(
        "{preempted} preemptions; {missed} of {timed} predicted arrivals missed; {split} seeks \
         split; \
         just-in-time seeks {just_in_time}"
    )
}
