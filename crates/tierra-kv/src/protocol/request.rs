//! A request: which of the parser's arguments are its own, and what they say.

/// An argument: where it is in the buffer that it was parsed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arg {
    /// Offset of its first byte.
    pub start: u32,
    /// How many bytes it has.
    pub len: u32,
}

/// A complete request: which of the parser's arguments are its own. There is at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Index of the first argument, the command's name.
    pub first: u32,
    /// How many arguments there are, the name included.
    pub count: u32,
}

/// The arguments of a request, the command's name first.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    buffer: &'a [u8],
    args: &'a [Arg],
}

impl<'a> Args<'a> {
    /// Arguments of a buffer.
    #[inline]
    pub fn new(buffer: &'a [u8], args: &'a [Arg]) -> Self {
        Self { buffer, args }
    }

    /// How many there are, the command's name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.args.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.args.is_empty()
    }

    /// An argument; 0 is the command's name.
    ///
    /// # Panics
    /// Where there is none.
    #[inline]
    pub fn at(&self, index: usize) -> &'a [u8] {
        let arg = self.args[index];
        &self.buffer[arg.start as usize..][..arg.len as usize]
    }

    /// An argument, if there is one.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        (index < self.len()).then(|| self.at(index))
    }

    /// The arguments from one on.
    #[inline]
    pub fn from(&self, index: usize) -> Args<'a> {
        Args {
            buffer: self.buffer,
            args: &self.args[index.min(self.args.len())..],
        }
    }

    /// All of them.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone {
        self.args
            .iter()
            .map(move |arg| &self.buffer[arg.start as usize..][..arg.len as usize])
    }

    /// Them two by two: fields with values, scores with members. A last one without a second is left out.
    #[inline]
    pub fn pairs(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone {
        (1..self.len())
            .step_by(2)
            .map(move |second| (self.at(second - 1), self.at(second)))
    }
}
