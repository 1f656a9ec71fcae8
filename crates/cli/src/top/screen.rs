//! The screen: two tables that are redrawn. `q`, Escape or Control-C ends it.

use api::{Client, History, VolumeWindow, Window};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use ratatui::widgets::{Row, Table};
use units::Duration;

use super::rows::{DISK_HEAD, VOLUME_HEAD, disk_row, volume_row};
use super::sample::sample;

/// A volume with requests whose share is below its reserve by more than this is highlighted.
const SHORTFALL: f64 = 0.02;

/// Shows interval after interval until a key ends it, or the daemon is gone.
pub(super) fn run(client: &Client, history: &mut History, length: Duration) -> anyhow::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let ended = loop {
        let interval = history.interval();
        if let Err(error) = terminal.draw(|frame| draw(frame, &interval)) {
            break Err(error.into());
        }
        match is_ended(length) {
            Ok(false) => {}
            Ok(true) => break Ok(()),
            Err(error) => break Err(error.into()),
        }
        match sample(client) {
            Ok(sample) => history.add(sample),
            Err(error) => break Err(error),
        }
    };
    ratatui::try_restore()?;
    ended
}

/// Waits for `length`, or for a key; returns whether it was a key that ends the screen.
fn is_ended(length: Duration) -> std::io::Result<bool> {
    if !event::poll(std::time::Duration::from_nanos(length.as_nanos()))? {
        return Ok(false);
    }
    let Event::Key(key) = event::read()? else { return Ok(false) };
    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    let quit = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
    Ok(key.kind == KeyEventKind::Press && (control_c || quit))
}

/// The widths of columns that fit their widest cells.
fn widths(head: &[&str], rows: &[Vec<String>]) -> Vec<Constraint> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        let widest = cells.chain([head[column].chars().count()]).max().unwrap_or(0);
        Constraint::Length(u16::try_from(widest).unwrap_or(u16::MAX))
    };
    (0..head.len()).map(width).collect()
}

fn table(head: &[&'static str], rows: Vec<Vec<String>>, styles: Vec<Style>) -> Table<'static> {
    let widths = widths(head, &rows);
    let last = head.len() - 1;
    // The first column is text and the last a graph; numbers are right-aligned.
    let cell = move |(column, text): (usize, String)| {
        let line = Line::from(text);
        if column == 0 || column == last { line } else { line.right_aligned() }
    };
    let rows = rows.into_iter().zip(styles).map(move |(row, style)| {
        Row::new(row.into_iter().enumerate().map(cell).collect::<Vec<_>>()).style(style)
    });
    let rows: Vec<Row<'static>> = rows.collect();
    let head = head.iter().map(ToString::to_string).enumerate().map(cell).collect::<Vec<_>>();
    let head = Row::new(head).style(Style::new().bold());
    Table::new(rows, widths).header(head).column_spacing(2)
}

fn style(volume: &VolumeWindow) -> Style {
    if volume.in_flight > 0 && volume.share < volume.reserve - SHORTFALL {
        Style::new().fg(Color::Yellow)
    } else if volume.in_flight == 0 && volume.iops == 0.0 {
        Style::new().fg(Color::DarkGray)
    } else {
        Style::new()
    }
}

fn draw(frame: &mut Frame<'_>, interval: &Window) {
    let disks = u16::try_from(interval.disks.len() + 2).unwrap_or(u16::MAX);
    let rows = [Constraint::Length(2), Constraint::Max(disks), Constraint::Min(3)];
    let [head, above, below] = Layout::vertical(rows).areas(frame.area());
    let title = format!(
        "spindle, up {:.0} s; {} volumes; q quits",
        interval.uptime_s,
        interval.volumes.len()
    );
    frame.render_widget(Line::from(title), head);
    let rows: Vec<_> = interval.disks.iter().map(disk_row).collect();
    let styles = vec![Style::new(); rows.len()];
    frame.render_widget(table(&DISK_HEAD, rows, styles), above);
    let mut volumes: Vec<&VolumeWindow> = interval.volumes.iter().collect();
    let room = usize::from(below.height.saturating_sub(1));
    // A screen that is too small shows the volumes with the largest shares.
    if volumes.len() > room {
        volumes.sort_by(|a, b| b.share.total_cmp(&a.share));
        volumes.truncate(room);
    }
    let rows = volumes.iter().map(|volume| volume_row(volume)).collect();
    let styles = volumes.iter().map(|volume| style(volume)).collect();
    frame.render_widget(table(&VOLUME_HEAD, rows, styles), below);
}

#[cfg(test)]
mod tests {
    use api::{ContractKind, DiskWindow};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use stats::SCHEMA;

    use super::*;

    fn volume(number: u32, share: f64) -> VolumeWindow {
        VolumeWindow {
            name: format!("vm{number}"),
            disk: "d0".into(),
            contract: "30%".into(),
            kind: ContractKind::Reserve,
            share,
            reserve: 0.3,
            reserved_by_stream: 0.0,
            limit: 1.0,
            iops: 10.0,
            bytes_per_s: 1e6,
            in_flight: 1,
            clients: "1 nbd".into(),
            transports: [("nbd".to_owned(), 1)].into(),
            mean_ms: Some(2.0),
            balance_s: Some(0.1),
            worth: Some(0.97),
            deadlines_met: None,
            deadlines_missed: None,
            late_bytes: None,
            beyond_bytes: Some(2 << 20),
            beyond_requests: None,
            closest_ms: None,
            share_history: vec![0.0, 0.05, 0.5, 1.0],
            share_of_late: Vec::new(),
        }
    }

    fn drawn(interval: &Window, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(130, height)).expect("a screen");
        terminal.draw(|frame| draw(frame, interval)).expect("it is drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn a_screen_shows_disks_and_volumes_and_where_it_is_small_the_busiest() {
        let disk = DiskWindow {
            name: "d0".into(),
            drive: "hgst-7k8".into(),
            busy_share: 0.98,
            reserved: 0.9,
            reserved_by_streams: 0.0,
            left: 0.1,
            iops: 30.0,
            bytes_per_s: 3e6,
            in_flight: 3,
            busy_history: vec![1.0],
            busy_of_late: Vec::new(),
        };
        let volumes = vec![volume(1, 0.1), volume(2, 0.7), volume(3, 0.2)];
        let (uptime_s, interval_s) = (61.0, 1.0);
        let interval = Window { schema: SCHEMA, uptime_s, interval_s, disks: vec![disk], volumes };
        let whole = drawn(&interval, 20);
        for word in
            ["up 61 s", "98.0 %", "90.0 %", "vm1", "vm2", "vm3", "1 nbd", "70.0 %", "2MiB", " ▁▄█"]
        {
            assert!(whole.contains(word), "{word} is missing:\n{whole}");
        }
        let small = drawn(&interval, 7);
        assert!(small.contains("vm2") && !small.contains("vm1"), "{small}");
    }
}
