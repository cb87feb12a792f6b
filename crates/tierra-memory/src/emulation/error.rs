//! What can be wrong with a description of far memory.

/// Far memory cannot be emulated as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EmulationError {
    /// A field's value makes no sense.
    #[error("far memory cannot be emulated with {field}={value}; expected {expected}")]
    Senseless {
        /// The field, as texts name it.
        field: &'static str,
        /// Its value.
        value: String,
        /// What would do.
        expected: String,
    },
    /// A text names neither a preset nor a field.
    #[error(
        "{text:?} describes no far memory; expected 'off', 'optane', 'remote-optane', 'remote-socket', 'cxl', \
         or fields such as 'latency=300ns,random=10GB/s' (also after a preset, which they change)"
    )]
    Unknown {
        /// The part of the text that is not understood.
        text: String,
    },
    /// A field's value cannot be read.
    #[error("far memory's {field} cannot be {value:?}; expected {expected}")]
    Unreadable {
        /// The field, as texts name it.
        field: &'static str,
        /// What stands there.
        value: String,
        /// What may stand there.
        expected: &'static str,
    },
    /// Memory of one device is to belong to another as well.
    #[error(
        "memory at {address:#x} belongs to another emulated memory; ranges are rounded outwards to pages of 2 MiB and \
         must not overlap"
    )]
    Overlap {
        /// Where the overlap begins.
        address: usize,
    },
    /// No more far memories can be emulated at once.
    #[error("at most {most} far memories can be emulated beside the usual one; drop one of them")]
    TooManyDevices {
        /// How many.
        most: usize,
    },
}
