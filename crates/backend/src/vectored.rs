//! Blocking transfers between a file and a list of buffers.
//!
//! A system call takes at most [`PARTS_MAX`] buffers, and may transfer less than it was asked for:
//! the rest is no retry, it has not been transferred. Where nothing comes the transfer fails.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};

use rustix::io::{Errno, ReadWriteFlags, preadv, pwritev, pwritev2};
use units::{Extent, SECTOR_BYTES};

use crate::buffers::Buffers;
use crate::limits::PARTS_MAX;

/// Reads the extent. The buffers grow to their parts, which are filled with zeroes first: without
/// unsafe code the kernel writes over bytes only.
///
/// # Errors
/// The system's; the buffers' bytes mean nothing then.
pub(crate) fn read(file: &File, extent: Extent, data: &mut Buffers) -> io::Result<()> {
    for (part, bytes) in data.parts_mut(extent) {
        bytes.resize(part.len.bytes_usize(), 0);
    }
    read_by(extent, data, |parts, at| preadv(file, parts, at))
}

/// Writes the extent; durably (`RWF_DSYNC`), if forced.
///
/// # Errors
/// The system's; some of the sectors may have been written.
pub(crate) fn write(
    file: &File,
    extent: Extent,
    data: &Buffers,
    is_forced: bool,
) -> io::Result<()> {
    write_by(extent, data, |parts, at| {
        if is_forced {
            pwritev2(file, parts, at, ReadWriteFlags::DSYNC)
        } else {
            pwritev(file, parts, at)
        }
    })
}

fn read_by(
    extent: Extent,
    data: &mut Buffers,
    mut call: impl FnMut(&mut [IoSliceMut<'_>], u64) -> rustix::io::Result<usize>,
) -> io::Result<()> {
    let (all, mut moved) = (extent.len.bytes_usize(), 0);
    while moved < all {
        let mut slices: [_; PARTS_MAX] = core::array::from_fn(|_| IoSliceMut::new(&mut []));
        let mut count = 0;
        let (mut skip, parts) = (moved, data.parts_mut(extent));
        for (_, bytes) in parts {
            let from = skip.min(bytes.len());
            skip -= from;
            if from < bytes.len() && count < PARTS_MAX {
                slices[count] = IoSliceMut::new(&mut bytes[from..]);
                count += 1;
            }
        }
        let at = extent.start.0 * SECTOR_BYTES + moved as u64;
        moved += progress(call(&mut slices[..count], at), io::ErrorKind::UnexpectedEof)?;
        assert!(moved <= all, "no more is read than was asked for");
    }
    Ok(())
}

fn write_by(
    extent: Extent,
    data: &Buffers,
    mut call: impl FnMut(&[IoSlice<'_>], u64) -> rustix::io::Result<usize>,
) -> io::Result<()> {
    let (all, mut moved) = (extent.len.bytes_usize(), 0);
    while moved < all {
        let mut slices: [_; PARTS_MAX] = core::array::from_fn(|_| IoSlice::new(&[]));
        let mut count = 0;
        let (mut skip, parts) = (moved, data.parts(extent));
        for (_, bytes) in parts {
            let from = skip.min(bytes.len());
            skip -= from;
            if from < bytes.len() && count < PARTS_MAX {
                slices[count] = IoSlice::new(&bytes[from..]);
                count += 1;
            }
        }
        let at = extent.start.0 * SECTOR_BYTES + moved as u64;
        moved += progress(call(&slices[..count], at), io::ErrorKind::WriteZero)?;
        assert!(moved <= all, "no more is written than was asked for");
    }
    Ok(())
}

/// The bytes that a call has transferred; `end` if it has transferred none.
fn progress(result: rustix::io::Result<usize>, end: io::ErrorKind) -> io::Result<usize> {
    match result {
        Ok(0) => Err(end.into()),
        Ok(moved) => Ok(moved),
        // Nothing was transferred, and nothing has failed.
        Err(Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use units::{Lba, Sectors};

    use super::*;
    use crate::buffers::Part;

    /// Parts of 1, 2, 3, 1, 2, 3 ... sectors, more of them than a call takes.
    fn list(is_filled: bool) -> (Extent, Buffers) {
        let lengths = (0..=PARTS_MAX as u64 * 2).map(|nth| Sectors(nth % 3 + 1));
        let part = |len: Sectors| {
            let byte = u8::try_from(len.0).expect("a few");
            let bytes = if is_filled { vec![byte; len.bytes_usize()] } else { Vec::new() };
            Part { len, bytes }
        };
        let parts: Vec<_> = lengths.map(part).collect();
        let sectors = parts.iter().map(|part| part.len.0).sum();
        (Extent::new(Lba(5), Sectors(sectors)), Buffers::List(parts))
    }

    /// The transfers that a slow file makes: short ones, of odd lengths, and interruptions.
    fn lengths() -> impl FnMut(usize) -> rustix::io::Result<usize> {
        let mut nth = 0;
        move |asked| {
            nth += 1;
            if nth % 4 == 0 { Err(Errno::INTR) } else { Ok(asked.min(nth * 97)) }
        }
    }

    #[test]
    fn a_write_that_is_cut_short_anywhere_is_written_whole() {
        let (extent, data) = list(true);
        let (mut file, mut short) = (vec![0; Sectors(extent.end().0).bytes_usize()], lengths());
        write_by(extent, &data, |parts, at| {
            assert!(!parts.is_empty() && parts.len() <= PARTS_MAX);
            let asked: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            let (moved, at) = (short(asked.len())?, usize::try_from(at).expect("small"));
            file[at..at + moved].copy_from_slice(&asked[..moved]);
            Ok(moved)
        })
        .expect("it is written");
        let expected = data.into_bytes();
        assert!(
            file[Sectors(extent.start.0).bytes_usize()..] == expected,
            "each byte is in its place"
        );
    }

    #[test]
    fn a_read_that_is_cut_short_anywhere_is_read_whole() {
        let (extent, expected) = list(true);
        let mut file = vec![0; Sectors(extent.start.0).bytes_usize()];
        file.extend(expected.into_bytes());
        let (_, mut data) = list(false);
        for (part, bytes) in data.parts_mut(extent) {
            bytes.resize(part.len.bytes_usize(), 0xee);
        }
        let mut short = lengths();
        read_by(extent, &mut data, |parts, at| {
            let asked = parts.iter().map(|part| part.len()).sum();
            let (moved, at) = (short(asked)?, usize::try_from(at).expect("small"));
            let mut from = &file[at..at + moved];
            for part in parts {
                let len = part.len().min(from.len());
                part[..len].copy_from_slice(&from[..len]);
                from = &from[len..];
            }
            Ok(moved)
        })
        .expect("it is read");
        assert!(
            data.into_bytes() == file[Sectors(extent.start.0).bytes_usize()..],
            "each has its bytes"
        );
    }

    #[test]
    fn a_transfer_of_which_nothing_more_comes_fails() {
        let (extent, mut data) = list(true);
        let mut calls = 0;
        let read = read_by(extent, &mut data, |_, _| {
            calls += 1;
            Ok(if calls == 1 { 700 } else { 0 })
        });
        assert_eq!(read.map_err(|error| error.kind()), Err(io::ErrorKind::UnexpectedEof));
        let written = write_by(extent, &data, |_, _| Err(Errno::NOSPC));
        assert_eq!(written.map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull));
    }
}
