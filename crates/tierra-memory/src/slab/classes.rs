//! Sizes in which objects are allocated.
//!
//! Multiples of 16 up to 512 bytes, then thirty-two sizes to each doubling up to 16 KiB: an object takes at most a thirty-second more
//! than it asks for, above 512 bytes. Anything larger takes whole pages.

/// Granularity of an object's size and place.
pub(super) const UNIT_BYTES: usize = 16;
pub(super) const PAGE_BYTES: usize = 4096;
/// The largest size that shares pages with others.
pub(super) const SMALL_BYTES_MAX: usize = 16 << 10;
/// Objects of a span, at most: its free slots are a bitmap of four words.
pub(super) const SPAN_OBJECTS_MAX: usize = 256;

const STEPS: usize = 32;
const FINE_BYTES: usize = STEPS * UNIT_BYTES;
const DOUBLINGS: usize = (SMALL_BYTES_MAX / FINE_BYTES).ilog2() as usize;
const SPAN_BYTES: usize = 64 << 10;
const SPAN_OBJECTS_MIN: usize = 8;

pub(super) const CLASSES: usize = STEPS + DOUBLINGS * STEPS;

/// The class that holds `bytes`, 1 to [`SMALL_BYTES_MAX`].
#[inline]
pub(super) fn class_of(bytes: usize) -> usize {
    debug_assert!((1..=SMALL_BYTES_MAX).contains(&bytes));
    let last = bytes - 1;
    if last < FINE_BYTES {
        return last / UNIT_BYTES;
    }
    let doubling = (last / FINE_BYTES).ilog2() as usize;
    let step = (last >> (doubling + UNIT_BYTES.trailing_zeros() as usize)) - STEPS;
    STEPS + doubling * STEPS + step
}

/// Bytes of an object of a class.
#[inline]
pub(super) const fn class_bytes(class: usize) -> usize {
    if class < STEPS {
        return (class + 1) * UNIT_BYTES;
    }
    let (doubling, step) = ((class - STEPS) / STEPS, (class - STEPS) % STEPS);
    ((STEPS + step + 1) * UNIT_BYTES) << doubling
}

/// Pages of a span of a class.
pub(super) const fn span_pages(class: usize) -> usize {
    let bytes = class_bytes(class);
    let objects = SPAN_BYTES / bytes;
    let objects = if objects > SPAN_OBJECTS_MAX {
        SPAN_OBJECTS_MAX
    } else if objects < SPAN_OBJECTS_MIN {
        SPAN_OBJECTS_MIN
    } else {
        objects
    };
    (objects * bytes).div_ceil(PAGE_BYTES)
}

/// Objects of a span of a class.
pub(super) fn span_objects(class: usize) -> usize {
    (span_pages(class) * PAGE_BYTES / class_bytes(class)).min(SPAN_OBJECTS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_least_class_that_holds_it() {
        assert_eq!(class_bytes(CLASSES - 1), SMALL_BYTES_MAX);
        for bytes in 1..=SMALL_BYTES_MAX {
            let class = class_of(bytes);
            let room = class_bytes(class);
            assert!(
                bytes <= room && (class == 0 || class_bytes(class - 1) < bytes),
                "{bytes}"
            );
            assert!(bytes <= FINE_BYTES || room - bytes < room / STEPS);
            assert_eq!(room % UNIT_BYTES, 0);
        }
    }

    #[test]
    fn spans_waste_little() {
        for class in 0..CLASSES {
            let used = span_objects(class) * class_bytes(class);
            let bytes = span_pages(class) * PAGE_BYTES;
            assert!(
                used <= bytes && bytes - used <= bytes / 8,
                "class {class}: {used} of {bytes}"
            );
        }
    }
}
