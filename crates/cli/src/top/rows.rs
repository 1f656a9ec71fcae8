//! The heads and rows of the two tables, on the screen and in text.

use api::{ContractKind, DiskWindow, VolumeWindow};
use units::Bytes;

pub(super) const DISK_HEAD: [&str; 10] = [
    "disk",
    "drive",
    "busy",
    "reserved",
    "streams",
    "left",
    "IOPS",
    "MB/s",
    "in flight",
    "busy, history",
];
pub(super) const VOLUME_HEAD: [&str; 15] = [
    "volume",
    "disk",
    "clients",
    "share",
    "contract",
    "limit",
    "balance",
    "worth",
    "missed",
    "beyond",
    "IOPS",
    "MB/s",
    "in flight",
    "mean ms",
    "share, history",
];

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// The reserve in the form of the share beside it, or another contract in words.
fn guarantee(volume: &VolumeWindow) -> String {
    match volume.kind {
        ContractKind::Reserve => percent(volume.reserve),
        _ => volume.contract.clone(),
    }
}

/// What was asked for beyond the contract: bytes of a stream, or requests of a bounded latency.
fn beyond(volume: &VolumeWindow) -> String {
    let bytes = volume.beyond_bytes.map(|bytes| Bytes(bytes).to_string());
    let requests = volume.beyond_requests.map(|requests| requests.to_string());
    bytes.or(requests).unwrap_or_else(none)
}

fn none() -> String {
    "-".to_owned()
}

pub(super) fn disk_row(disk: &DiskWindow) -> Vec<String> {
    vec![
        disk.name.clone(),
        disk.drive.clone(),
        percent(disk.busy_share),
        percent(disk.reserved),
        percent(disk.reserved_by_streams),
        percent(disk.left),
        format!("{:.1}", disk.iops),
        format!("{:.2}", disk.bytes_per_s / 1e6),
        disk.in_flight.to_string(),
        sparkline(&disk.busy_history),
    ]
}

pub(super) fn volume_row(volume: &VolumeWindow) -> Vec<String> {
    vec![
        volume.name.clone(),
        volume.disk.clone(),
        volume.clients.clone(),
        percent(volume.share),
        guarantee(volume),
        percent(volume.limit),
        volume.balance_s.map_or_else(none, |balance| format!("{balance:.2} s")),
        volume.worth.map_or_else(none, |worth| format!("{worth:.2}")),
        volume.deadlines_missed.map_or_else(none, |missed| missed.to_string()),
        beyond(volume),
        format!("{:.1}", volume.iops),
        format!("{:.2}", volume.bytes_per_s / 1e6),
        volume.in_flight.to_string(),
        volume.mean_ms.map_or_else(none, |mean| format!("{mean:.2}")),
        sparkline(&volume.share_history),
    ]
}

/// Shares as a line of bars. A share above zero has a bar of at least one eighth.
fn sparkline(parts: &[f64]) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "one of nine")]
    let bar = |part: &f64| BARS[(part.clamp(0.0, 1.0) * 8.0).ceil() as usize];
    parts.iter().map(bar).collect()
}
