//! The memory of a disk's write buffers: the bytes of the pieces that [`engine::WriteBuffer`]
//! names.

use std::io;
use std::sync::mpsc::SyncSender;

use backend::Failure;
use engine::{
    BufferedPart, Buffering, Destage, Handling, Outcome, PieceId, Request, RequestId, VolumeId,
    WriteBuffer, WriteBufferAction, WriteBufferSettings, WriteBufferUsage,
};
use units::{Extent, Instant, Op};

use super::request::{Changed, Overlay};
use super::terms::BufferTerms;
use super::write_buffer_log::WriteBufferLog;
use crate::observe::status::WriteBufferStatus;

/// The write buffers of one disk.
#[derive(Debug)]
pub(crate) struct HostWriteBuffer {
    buffer: WriteBuffer,
    pieces: Vec<Option<Vec<u8>>>,
    /// Volumes that are being drained, each with what receives the answer of the drain.
    drains: Vec<(VolumeId, SyncSender<Changed>)>,
    /// How the last write from a buffer to the disk failed.
    failure: Option<Failure>,
    /// The volumes with a loss that the pool is not told of yet.
    losses: Vec<VolumeId>,
    /// What survives the daemon.
    log: Option<WriteBufferLog>,
}

impl HostWriteBuffer {
    pub(crate) fn new(settings: WriteBufferSettings) -> Self {
        let settings = WriteBufferSettings { is_shared: true, ..settings };
        Self {
            buffer: WriteBuffer::new(settings),
            pieces: Vec::new(),
            drains: Vec::new(),
            failure: None,
            losses: Vec::new(),
            log: None,
        }
    }

    /// Logs what is buffered from now on.
    pub(crate) fn set_log(&mut self, log: WriteBufferLog) {
        assert!(self.buffer.is_clean(), "it is set at the start");
        self.log = Some(log);
    }

    /// Changes the log. One that fails is removed: what is buffered is then lost if the daemon is
    /// killed, but nothing old is ever written over anything new.
    fn with_log(&mut self, change: impl FnOnce(&mut WriteBufferLog) -> io::Result<()>) {
        let Some(log) = &mut self.log else { return };
        if let Err(error) = change(log) {
            log.remove();
            eprintln!(
                "{log}: {error}: it is removed; a kill of the daemon loses what is buffered, until \
                 it is started again"
            );
            self.log = None;
        }
    }

    /// A volume is attached. One whose flushes pass is the pool's own: what it trims and writes is
    /// flushed on the disk.
    pub(crate) fn add_volume(&mut self, volume: VolumeId, terms: BufferTerms) {
        let BufferTerms { bound, passes_flushes, reports_losses } = terms;
        self.buffer.add_volume(volume, bound);
        if passes_flushes {
            self.buffer.pass_flushes(volume);
        }
        if reports_losses {
            self.buffer.report_losses(volume);
        }
    }

    /// The volumes of which the disk has failed to write what was answered, since this was asked
    /// last, as far as the pool is to be told.
    pub(crate) fn take_losses(&mut self) -> Vec<VolumeId> {
        core::mem::take(&mut self.losses)
    }

    /// Whether a request that goes past the buffer has to be forced.
    pub(crate) fn forces(&self, request: &Request, now: Instant) -> bool {
        self.buffer.forces(request, now)
    }

    pub(crate) fn remove_volume(&mut self, volume: VolumeId) {
        self.buffer.remove_volume(volume);
    }

    /// Says where further writes of a volume are buffered.
    pub(crate) fn set_buffering(&mut self, volume: VolumeId, buffering: Buffering) {
        self.buffer.set_buffering(volume, buffering);
    }

    /// Answers `drained` with [`Self::take_drained`] when nothing of the volume is buffered.
    pub(crate) fn drain(&mut self, volume: VolumeId, drained: SyncSender<Changed>) {
        self.buffer.set_buffering(volume, Buffering::Off);
        self.drains.push((volume, drained));
    }

    /// The next volume whose buffer was to be drained and is empty.
    pub(crate) fn take_drained(&mut self) -> Option<(VolumeId, SyncSender<Changed>)> {
        let is_empty = |(volume, _): &(VolumeId, _)| self.buffer.is_empty(*volume);
        let position = self.drains.iter().position(is_empty)?;
        Some(self.drains.swap_remove(position))
    }

    /// Whether nothing of a volume is buffered.
    pub(crate) fn is_empty(&self, volume: VolumeId) -> bool {
        self.buffer.is_empty(volume)
    }

    /// Whether nothing is buffered.
    pub(crate) fn is_clean(&self) -> bool {
        self.buffer.is_clean()
    }

    /// Whether something of these sectors is buffered.
    pub(crate) fn is_dirty(&self, extent: Extent) -> bool {
        self.buffer.is_dirty(extent)
    }

    /// Says how a client's request is handled. A write that is buffered gives its bytes away.
    pub(crate) fn submit(
        &mut self,
        request: &Request,
        data: &mut Vec<u8>,
        now: Instant,
    ) -> Handling {
        let handling = self.buffer.submit(request, now);
        if let Handling::Buffered(piece) | Handling::Forced(piece) = handling {
            self.keep(piece, request.operation.extent, data);
        }
        handling
    }

    /// Takes the bytes of a write. A buffer that is much larger than they are is not kept.
    pub(crate) fn keep(&mut self, piece: PieceId, extent: Extent, data: &mut Vec<u8>) {
        self.with_log(|log| log.write(piece, extent, data));
        let index = piece.0 as usize;
        if index >= self.pieces.len() {
            self.pieces.resize_with(index + 1, || None);
        }
        let is_wasteful = data.capacity() > 2 * data.len();
        let bytes = if is_wasteful { data.as_slice().to_vec() } else { core::mem::take(data) };
        data.clear();
        let before = self.pieces[index].replace(bytes);
        assert!(before.is_none(), "a piece is kept once");
    }

    /// The next action; the bytes of a dropped piece are released. The engine has `requests`.
    pub(crate) fn poll(&mut self, requests: usize, now: Instant) -> Option<WriteBufferAction> {
        loop {
            match self.buffer.poll(requests, now) {
                Some(WriteBufferAction::Drop(piece)) => {
                    let bytes = self.pieces[piece.0 as usize].take();
                    assert!(bytes.is_some(), "a piece is released once");
                    self.log.iter_mut().for_each(|log| log.release(piece));
                }
                Some(action) => return Some(action),
                None => break,
            }
        }
        // The writes that replace what was released are logged now.
        if let Some(mut log) = self.log.take() {
            let reclaimed = log.reclaim(self.buffer.is_clean(), || self.buffer.held());
            self.log = Some(log);
            self.with_log(|_| reclaimed);
        }
        None
    }

    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        self.buffer.next_wakeup()
    }

    fn bytes(&self, part: &BufferedPart) -> &[u8] {
        let piece = self.pieces[part.piece.0 as usize].as_ref().expect("a piece in use is kept");
        let start = part.offset.bytes_usize();
        &piece[start..start + part.extent.len.bytes_usize()]
    }

    /// What is buffered of a read.
    pub(crate) fn overlays(&self, volume: VolumeId, extent: Extent) -> Vec<Overlay> {
        let parts = self.buffer.parts(volume, extent);
        let at = |part: &BufferedPart| extent.start.distance(part.extent.start).bytes_usize();
        parts.map(|part| (at(&part), self.bytes(&part).to_vec())).collect()
    }

    /// Appends the bytes of a destage to `data`. What is written to its sectors from now on is not
    /// of it.
    pub(crate) fn take(&mut self, destage: &Destage, data: &mut Vec<u8>) {
        let Destage { id, volume, operation } = *destage;
        self.copy(volume, operation.extent, data);
        if operation.op == Op::Write {
            self.log.iter_mut().for_each(|log| log.sent(id));
        }
    }

    /// Appends the bytes of an extent that is buffered as a whole to `data`.
    pub(crate) fn copy(&self, volume: VolumeId, extent: Extent, data: &mut Vec<u8>) {
        data.clear();
        for part in self.buffer.parts(volume, extent) {
            data.extend_from_slice(self.bytes(&part));
        }
        assert_eq!(data.len(), extent.len.bytes_usize(), "all of it is buffered");
    }

    /// A write from a buffer to the disk has ended.
    pub(crate) fn destaged(&mut self, destage: &Destage, failure: Option<Failure>) {
        self.failure = failure.or(self.failure);
        let outcome = if failure.is_some() { Outcome::Failed } else { Outcome::Done };
        let Destage { id, volume, operation } = *destage;
        self.with_log(|log| log.done(id, operation.extent));
        self.buffer.destaged(destage, outcome);
        if outcome == Outcome::Failed && self.buffer.reports_losses(volume) {
            self.losses.push(volume);
        }
    }

    /// A request that the disk had has ended.
    pub(crate) fn ended(&mut self, volume: VolumeId, request: RequestId) {
        self.buffer.ended(volume, request);
    }

    /// Why a flush, or a forced write, with this outcome has failed.
    pub(crate) fn failure(&self, outcome: Outcome) -> Option<Failure> {
        (outcome == Outcome::Failed).then_some(self.failure.unwrap_or(Failure::Io))
    }

    pub(crate) fn usage(&self, volume: VolumeId) -> WriteBufferUsage {
        self.buffer.usage(volume)
    }

    /// Its memory, and what it has done so far.
    pub(crate) fn status(&self) -> WriteBufferStatus {
        WriteBufferStatus { memory: self.buffer.memory().bytes(), usage: self.buffer.total() }
    }
}

impl Drop for HostWriteBuffer {
    fn drop(&mut self) {
        // All of it is on the disk: the log of a disk that others may change next says nothing.
        if let Some(log) = self.log.as_ref().filter(|_| self.buffer.is_clean()) {
            log.remove();
        }
    }
}
