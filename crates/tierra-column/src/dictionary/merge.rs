//! The next generation: main and delta merged into one order, and what that does to old codes.
//!
//! Merging makes new objects only; the old generation answers for its chunks until the manifest
//! that names the re-encoded ones is published.

use std::sync::Arc;

use arrow::array::StringViewArray;
use arrow::buffer::ScalarBuffer;

use super::{Dictionary, DictionaryValues};

/// Old code to new code, from one generation to the next.
#[derive(Debug, Clone)]
pub struct Remapping {
    from: u64,
    to: u64,
    codes: Vec<u32>,
}

impl Remapping {
    /// The generation whose codes it takes.
    pub fn from(&self) -> u64 {
        self.from
    }

    /// The generation whose codes it gives.
    pub fn to(&self) -> u64 {
        self.to
    }

    /// The new code of an old one; `None` where there was no such code.
    pub fn get(&self, code: u32) -> Option<u32> {
        self.codes.get(code as usize).copied()
    }
}

impl Dictionary {
    /// The next generation, all values in its main part, and where each old code went.
    pub fn merge(&self, generation: u64) -> (Dictionary, Remapping) {
        let mut order = Vec::with_capacity(self.len());
        let (mut main, mut delta) = (0, 0);
        while main < self.main.len() || delta < self.delta.len() {
            let from_main = delta == self.delta.len()
                || main < self.main.len()
                    && self.is_less(self.main.code(main), self.delta.code(delta));
            if from_main {
                order.push(self.main.code(main));
                main += 1;
            } else {
                order.push(self.delta.code(delta));
                delta += 1;
            }
        }
        let mut codes = vec![0; order.len()];
        for (rank, &code) in order.iter().enumerate() {
            codes[code as usize] = rank as u32;
        }
        let values = match &self.values {
            DictionaryValues::Ordinals(values) => DictionaryValues::Ordinals(Arc::new(
                order.iter().map(|&code| values[code as usize]).collect(),
            )),
            DictionaryValues::Strings(values) => {
                let views: Vec<u128> = order
                    .iter()
                    .map(|&code| values.views()[code as usize])
                    .collect();
                let buffers = values.data_buffers().to_vec();
                DictionaryValues::Strings(StringViewArray::new(
                    ScalarBuffer::from(views),
                    buffers,
                    None,
                ))
            }
        };
        let main_len = values.len();
        let remapping = Remapping {
            from: self.generation,
            to: generation,
            codes,
        };
        (
            Dictionary::new(self.ty, generation, values, main_len, self.gate.clone()),
            remapping,
        )
    }

    fn is_less(&self, a: u32, b: u32) -> bool {
        match &self.values {
            DictionaryValues::Ordinals(values) => values[a as usize] < values[b as usize],
            DictionaryValues::Strings(values) => {
                values.value(a as usize) < values.value(b as usize)
            }
        }
    }
}
