//! What was found of a drive's dynamics.

use units::{Bytes, Duration, Sectors, Share};

use crate::{Figure, Findings, Spindle, Stage};

/// Everything that was found; each part as soon as it was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dynamics {
    /// The arm, before reads.
    pub seek: Option<Seeks>,
    /// The arm, before writes, its settling included.
    pub seek_write: Option<Seeks>,
    /// What commands cost beside the media.
    pub overheads: Overheads,
    /// Memory for reads.
    pub read_buffer: Option<ReadBuffer>,
    /// Memory for writes.
    pub write_buffer: Option<WriteBuffer>,
    /// Sequential reads against the length of a command (FAST 2003, figure 5).
    pub chunks_read: Option<Chunks>,
    /// Sequential writes against the length of a command (FAST 2003, figure 6).
    pub chunks_write: Option<Chunks>,
    /// Random reads of a block, at rising depths.
    pub depths: Vec<DepthPoint>,
    /// Random reads beside a sequential stream.
    pub starvation: Option<Starvation>,
    /// How well rotation is foretold.
    pub prediction: Option<Prediction>,
}

impl Dynamics {
    /// The stages that found figures, and how sure each of these is.
    fn beliefs(&self) -> Vec<(Stage, Share)> {
        let Overheads { hit, read, cached, write, seek, bus_read, bus_write, .. } = self.overheads;
        let switches = [self.overheads.head_switch, self.overheads.head_switch_write];
        let times = [hit, cached, write, seek, bus_read, bus_write].into_iter().chain(switches);
        let sure = |figure: Figure<Duration>| figure.confidence;
        let mut all: Vec<_> =
            times.flatten().map(|figure| (Stage::Overheads, sure(figure))).collect();
        all.extend(read.map(|figure| (Stage::Seeks, sure(figure))));
        if let Some(memory) = &self.read_buffer {
            let sure =
                [memory.ahead.confidence, memory.segments.confidence, memory.segment.confidence];
            all.extend(sure.map(|sure| (Stage::ReadBuffer, sure)));
        }
        if let Some(memory) = &self.write_buffer {
            all.extend(memory.size.map(|figure| (Stage::WriteBuffer, figure.confidence)));
            all.extend(memory.destage.map(|figure| (Stage::WriteBuffer, figure.confidence)));
        }
        let ranges = [&self.chunks_read, &self.chunks_write].into_iter().flatten();
        all.extend(ranges.filter_map(|range| range.confidence).map(|sure| (Stage::Chunks, sure)));
        all
    }
}

impl Findings {
    /// The stages that have a figure which is less sure than `least`, once each.
    pub fn doubted(&self, least: Share) -> Vec<Stage> {
        let mut all = self.dynamics.beliefs();
        if let Some(Spindle::Turns(rotation)) = &self.spindle {
            all.push((Stage::Rotation, rotation.period.confidence));
        }
        let zones = self.geometry.iter().flat_map(|map| &map.zones);
        all.extend(zones.map(|zone| (Stage::Zones, zone.begins)));
        let mut doubted: Vec<Stage> =
            all.into_iter().filter(|(_, sure)| *sure < least).map(|(stage, _)| stage).collect();
        doubted.sort_unstable();
        doubted.dedup();
        doubted
    }
}

/// Time to move the arm, against the distance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seeks {
    /// Rising distances; linear between them.
    pub points: Vec<SeekPoint>,
    /// To the next cylinder.
    pub least: Duration,
    /// Over pairs of cylinders drawn evenly.
    pub mean: Duration,
    /// From the first cylinder to the last.
    pub full_stroke: Duration,
    /// How many movements it was found from.
    pub samples: u32,
}

/// One point of a seek curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeekPoint {
    /// In cylinders.
    pub distance: u32,
    /// What it takes in the middle.
    pub time: Duration,
    /// The standard error of that.
    pub error: Duration,
    /// The standard deviation of single movements.
    pub variation: Duration,
}

/// What passes between a command's submission and its effect.
///
/// Of the drive alone where [`Overheads::path`] is known; else with the way to it and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    /// The way to the drive and back, where it could be timed on its own: it is in none of the others then.
    pub path: Option<Figure<Duration>>,
    /// A read out of the drive's memory, until its data is on the bus.
    pub hit: Option<Figure<Duration>>,
    /// A read off the disk, until the arm moves; with what a completion comes later than its last sector.
    pub read: Option<Figure<Duration>>,
    /// A write into the drive's memory, until it takes data.
    pub cached: Option<Figure<Duration>>,
    /// A forced write, until the arm moves; with the same delay as reads have, and its data's way.
    pub write: Option<Figure<Duration>>,
    /// A command that moves the arm by nothing.
    pub seek: Option<Figure<Duration>>,
    /// One sector of a read on the bus.
    pub bus_read: Option<Figure<Duration>>,
    /// One sector of a write on the bus.
    pub bus_write: Option<Figure<Duration>>,
    /// How much of a read has come off the media before its data goes on the bus, where the two do not work side by side.
    pub read_share: Option<Figure<Share>>,
    /// A change of heads on one cylinder, before a read.
    pub head_switch: Option<Figure<Duration>>,
    /// The same before a write.
    pub head_switch_write: Option<Figure<Duration>>,
}

/// Memory for reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadBuffer {
    /// How far behind a read of a block the drive reads on if it is left alone.
    pub ahead: Figure<Sectors>,
    /// Whether it stops at the end of a track.
    pub ends_with_track: bool,
    /// Whether it reads the next track behind a read that ends with its track, all the same.
    pub reads_next_track: bool,
    /// Whether a read of what is about to pass is served when it does, where that could be told.
    pub waits: Option<bool>,
    /// Whether what was read ahead and asked for once is there to be read again, where that could be told.
    pub keeps: Option<bool>,
    /// How many runs of sectors it keeps.
    pub segments: Figure<u32>,
    /// How long one may be.
    pub segment: Figure<Sectors>,
}

/// Memory for writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBuffer {
    /// Whether writes are answered before they are on the disk.
    pub answers_early: bool,
    /// How much it takes before writes wait; nothing where it never filled.
    pub size: Option<Figure<Sectors>>,
    /// How many scattered writes it takes before they wait, where that is what ends first.
    pub runs: Option<u32>,
    /// How much longer a flush takes for each scattered write before it.
    pub destage: Option<Figure<Duration>>,
    /// Whether it is written to the disk without a flush, within a second.
    pub destages_when_idle: bool,
}

/// Throughput of a sequential stream against the length of its commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunks {
    /// At rising lengths.
    pub points: Vec<ChunkPoint>,
    /// The shortest and the longest chunk of the optimal range (FAST 2003, figure 3: a and b).
    pub optimal: (Sectors, Sectors),
    /// How sure it is that each length is in the range, or is not.
    pub confidence: Option<Share>,
}

/// One length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPoint {
    /// Of each command.
    pub chunk: Sectors,
    /// Bytes a second as this host saw them, its own delays included.
    pub seen: Bytes,
    /// The same without the host's delays.
    pub drive: Bytes,
}

/// Random reads at one depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthPoint {
    /// Commands in the drive.
    pub depth: u32,
    /// Reads in a thousand seconds.
    pub per_1000_s: u64,
    /// From how many.
    pub samples: u32,
}

/// What a random read waits beside a sequential stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Starvation {
    /// Depths, with the random read among them, and the longest that it waited.
    pub waits: Vec<(u32, Duration)>,
    /// The deepest at which, and at all less deep, it did not starve.
    pub safe_depth: u32,
}

/// How well the passing of a sector is foretold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// The standard deviation of completions about what was foretold, whole turns aside.
    pub noise: Duration,
    /// How long before its sector a command's heads were to arrive.
    pub offset: Duration,
    /// How many lost a turn nevertheless.
    pub missed: Share,
    /// Of how many.
    pub samples: u32,
    /// Whether seeks just in time are worth it.
    pub worth_it: bool,
}
