//! Copies far bytes near, and keeps no copy with a wrong read.

use std::fmt;
use std::sync::Arc;

use tierra_memory::{NearCopy, NearMemory};

/// A near copy of the far `bytes`. The copy is checked, so that far memory is read once and a wrong read is not kept. If it is
/// wrong, `repair` repairs the far bytes and they are copied again. `None` if there is no room, before anything is read; if
/// copying was stopped ([`NearMemory::copy_while`]); or if near memory itself is wrong.
pub(crate) fn checked_copy<E: fmt::Display>(
    near: &NearMemory,
    bytes: &[u8],
    mut goes_on: impl FnMut(usize) -> bool,
    check: impl Fn(&[u8]) -> Result<(), E>,
    repair: impl FnOnce() -> Result<(), E>,
) -> Result<Option<Arc<NearCopy>>, E> {
    let mut copy = || near.copy_while(bytes, &mut goes_on);
    let Some(copied) = copy() else {
        return Ok(None);
    };
    if check(&copied).is_ok() {
        return Ok(Some(Arc::new(copied)));
    }
    drop(copied);
    repair()?;
    let Some(copied) = copy() else {
        return Ok(None);
    };
    if let Err(error) = check(&copied) {
        tracing::warn!(%error, "bytes are right in far memory and wrong once copied near: they are read where they are");
        return Ok(None);
    }
    Ok(Some(Arc::new(copied)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_copy_is_checked_and_made_anew_of_what_was_put_right() {
        let near = NearMemory::new(64);
        let (checks, repairs) = (Cell::new(0), Cell::new(0));
        // The first `wrong` copies fail their check.
        let copy = |bytes: &[u8], wrong| {
            checks.set(0);
            repairs.set(0);
            let check = |copied: &[u8]| {
                assert_eq!(copied, bytes);
                checks.set(checks.get() + 1);
                if checks.get() > wrong {
                    Ok(())
                } else {
                    Err("wrong")
                }
            };
            let repair = || {
                // A wrong copy takes no room.
                assert_eq!(near.used(), 0);
                repairs.set(repairs.get() + 1);
                Ok(())
            };
            let copied = checked_copy(&near, bytes, |_| true, check, repair);
            let is_there = copied.map(|copy| copy.is_some_and(|copy| **copy == *bytes));
            (is_there, checks.get(), repairs.get())
        };
        assert_eq!(copy(b"right", 0), (Ok(true), 1, 0));
        assert_eq!(copy(b"right then", 1), (Ok(true), 2, 1));
        assert_eq!(copy(b"never", 2), (Ok(false), 2, 1));
        assert_eq!(copy(&[0; 65], 0), (Ok(false), 0, 0));
        assert_eq!(near.used(), 0);
    }
}
