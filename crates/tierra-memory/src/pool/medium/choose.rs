//! Which medium a pool has: detected from its file, or given by an option.

use std::fs::File;
use std::io;

use super::dax::Dax;
use super::device::Device;
use super::file::PageCache;
use super::read_only::ReadOnly;
use super::tmpfs::Tmpfs;
use super::{Medium, MediumKind};
use crate::durability::Durability;
use crate::persist::{Flush, Processor};
use crate::recording::Recorder;
use crate::topology::DaxDevice;

/// Finds out what a file lies on. DAX first: the kernel grants `MAP_SYNC` only where it is true.
/// `flush` is the instruction that is asked for, `emulate_dax` whether tmpfs is written as DAX is.
pub(crate) fn detect(
    file: &File,
    flush: Option<Flush>,
    emulate_dax: bool,
) -> io::Result<Box<dyn Medium>> {
    let processor = || processor(flush);
    if Dax::supports(file) {
        Ok(Box::new(Dax::new(processor()?)))
    } else if !Tmpfs::holds(file)? {
        Ok(Box::new(PageCache::new()))
    } else if emulate_dax {
        Ok(Box::new(Dax::emulated(processor()?)))
    } else {
        Ok(Box::new(Tmpfs))
    }
}

/// A file that is only read, whatever it lies on.
pub(crate) fn read_only(file: &File) -> io::Result<Box<dyn Medium>> {
    let kind = match Tmpfs::holds(file)? {
        true => MediumKind::Tmpfs,
        false => MediumKind::File,
    };
    Ok(Box::new(ReadOnly::new(kind)))
}

/// A DAX device, of which sysfs says what it is; mappings of it begin and end at multiples of `unit_bytes`.
pub(crate) fn device(
    device: &DaxDevice,
    unit_bytes: u64,
    flush: Option<Flush>,
) -> io::Result<Box<dyn Medium>> {
    let processor = processor(flush)?;
    Ok(Box::new(Device::new(device, unit_bytes, processor)))
}

fn processor(flush: Option<Flush>) -> io::Result<Processor> {
    match flush {
        None => Ok(Processor::best()),
        Some(how) => Processor::flushing_by(how).ok_or_else(|| {
            let what = format!("this processor has no {how}");
            io::Error::new(io::ErrorKind::Unsupported, what)
        }),
    }
}

/// The medium that a recorder stands for, whatever the file lies on.
pub(crate) fn recorded(recorder: &Recorder) -> Box<dyn Medium> {
    let recorder = recorder.clone();
    match recorder.durability() {
        Durability::CacheLine => Box::new(Dax::recorded(recorder)),
        _ => Box::new(PageCache::recorded(recorder)),
    }
}
