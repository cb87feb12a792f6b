//! How a reader says that it reads.

/// How a program is going to read a column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ReadPattern {
    /// All rows, or long runs of them.
    #[default]
    Sequential,
    /// Single rows.
    Random,
    /// This share of the rows, from 0 to 1, spread over all.
    Share(f64),
}

/// From this share on sequential reading is the better one: then most lines of packed values are touched.
const SEQUENTIAL_FROM: f64 = 1.0 / 32.0;

impl ReadPattern {
    /// Whether single values are looked up.
    pub(crate) fn looks_up(self) -> bool {
        match self {
            ReadPattern::Sequential => false,
            ReadPattern::Random => true,
            ReadPattern::Share(share) => share < SEQUENTIAL_FROM,
        }
    }
}
