//! A flash drive as a drive file; [`super::parse`] returns the same drive.

use core::fmt::Write;

use drive::{Amplification, FlashSpec, Host, Memory, Nand, Suspend};
use units::Bytes;

use super::text::{exact_time, size};

/// The drive file of a flash drive.
pub fn flash_to_toml(spec: &FlashSpec) -> String {
    let mut text = String::new();
    write(&mut text, spec).expect("a string takes everything");
    text
}

fn rate(rate: Bytes) -> String {
    format!("\"{}B/s\"", rate.0)
}

fn write(text: &mut String, spec: &FlashSpec) -> core::fmt::Result {
    let FlashSpec { capacity, queue_depth_max, power_loss_protection, nand, memory, host } = spec;
    writeln!(text, "kind = \"flash\"\ncapacity = {}", size(*capacity))?;
    writeln!(text, "queue_depth_max = {queue_depth_max}")?;
    writeln!(text, "power_loss_protection = {power_loss_protection}")?;
    cells(text, nand)?;
    if let Some(Suspend { enter, resume, count_max }) = nand.suspend {
        writeln!(
            text,
            "\n[suspend]\nenter = {}\nresume = {}",
            exact_time(enter),
            exact_time(resume)
        )?;
        writeln!(text, "count_max = {count_max}")?;
    }
    let Memory { write_buffer, read_buffer, read_ahead } = *memory;
    writeln!(text, "\n[memory]\nwrite_buffer = {}", size(write_buffer))?;
    writeln!(text, "read_buffer = {}\nread_ahead = {}", size(read_buffer), size(read_ahead))?;
    way(text, host)
}

fn cells(text: &mut String, nand: &Nand) -> core::fmt::Result {
    writeln!(text, "\n[nand]\nchannels = {}", nand.channels)?;
    writeln!(text, "dies_per_channel = {}\nplanes = {}", nand.dies_per_channel, nand.planes)?;
    writeln!(text, "page = {}\nchannel_rate = {}", size(nand.page), rate(nand.channel_rate))?;
    writeln!(text, "read = {}\nprogram = {}", exact_time(nand.read), exact_time(nand.program))?;
    writeln!(
        text,
        "erase = {}\nunits_per_block = {}",
        exact_time(nand.erase),
        nand.units_per_block
    )?;
    writeln!(text, "reads_before_program = {}", nand.reads_before_program)?;
    let Amplification(thousandths) = nand.write_amplification;
    let (whole, part) = (thousandths / 1_000, thousandths % 1_000);
    writeln!(text, "write_amplification = \"{whole}.{part:03}\"")
}

fn way(text: &mut String, host: &Host) -> core::fmt::Result {
    writeln!(text, "\n[host]\nread_rate = {}", rate(host.read_rate))?;
    writeln!(text, "write_rate = {}\nduplex = {}", rate(host.write_rate), host.duplex)?;
    let times = [
        ("read_command", host.read_command),
        ("write_command", host.write_command),
        ("read_latency", host.read_latency),
        ("write_latency", host.write_latency),
        ("write_random", host.write_random),
        ("flush", host.flush),
    ];
    times.iter().try_for_each(|(key, value)| writeln!(text, "{key} = {}", exact_time(*value)))
}
