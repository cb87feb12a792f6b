//! A chunk's values on their way to an encoding: what is known of all of them, and a sample.

use crate::bits::{BLOCK_LEN, Kernels};
use crate::block::{OrdinalBlock, Summary};
use crate::bytes::lines;
use crate::encoding::source::Source;
use crate::logical_type::{LogicalType, Physical};

/// Blocks that are looked at.
pub(crate) const SAMPLE_BLOCKS: usize = 32;

/// Values with the least, the greatest and the NULLs of every block, where they have ordinals.
pub(crate) struct ChunkValues {
    pub(crate) ty: LogicalType,
    pub(crate) source: Source,
    /// Of each block; none where there are no ordinals.
    pub(crate) summaries: Vec<Summary>,
    pub(crate) total: Summary,
    /// 1 where a code has to stand for NULL.
    pub(crate) null_codes: u64,
}

impl ChunkValues {
    pub(crate) fn new(ty: LogicalType, source: Source) -> ChunkValues {
        let has_ordinals = match &source {
            Source::Arrays(_) => ty.physical() == Physical::Ordinal,
            Source::Codes(_) => true,
        };
        let summaries = match has_ordinals {
            true => summarise(&source),
            false => Vec::new(),
        };
        ChunkValues {
            ty,
            source,
            total: Summary::of_all(&summaries),
            null_codes: u64::from(Summary::nulls_of(&summaries) > 0),
            summaries,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.source.rows()
    }

    pub(crate) fn blocks(&self) -> usize {
        self.rows().div_ceil(BLOCK_LEN)
    }

    /// Rows of block `block`.
    pub(crate) fn block_rows(&self, block: usize) -> usize {
        (self.rows() - block * BLOCK_LEN).min(BLOCK_LEN)
    }

    /// Bytes of all blocks, each of which has whole lines; `None` where any has no length.
    pub(crate) fn bytes(&self, len: impl Fn(usize) -> Option<usize>) -> Option<f64> {
        (0..self.blocks())
            .map(|block| len(block).map(|len| lines(len) as f64))
            .sum()
    }
}

fn summarise(source: &Source) -> Vec<Summary> {
    let kernels = Kernels::best();
    let mut block = OrdinalBlock::new();
    (0..source.rows().div_ceil(BLOCK_LEN))
        .map(|b| {
            if let Some(integers) = source.integers(b) {
                return integers.summary(kernels);
            }
            source.fill(b, &mut block);
            block.summary(kernels)
        })
        .collect()
}

/// Some blocks of values, evenly spread.
pub(crate) struct Sample {
    pub(crate) blocks: Vec<(Summary, OrdinalBlock)>,
    /// Rows of the chunk for each one here.
    scale: f64,
}

impl Sample {
    pub(crate) fn new(values: &ChunkValues) -> Sample {
        let mut rows = 0;
        let blocks = sampled(values.blocks())
            .map(|block| {
                let mut ordinals = OrdinalBlock::new();
                values.source.fill(block, &mut ordinals);
                rows += ordinals.rows;
                (values.summaries[block], ordinals)
            })
            .collect();
        Sample {
            blocks,
            scale: values.rows() as f64 / rows.max(1) as f64,
        }
    }

    /// Bytes of all blocks, estimated from those of the sample, each of which has whole lines.
    pub(crate) fn bytes(
        &self,
        mut len: impl FnMut(&Summary, &OrdinalBlock) -> Option<usize>,
    ) -> Option<f64> {
        let lens = self
            .blocks
            .iter()
            .map(|(summary, block)| len(summary, block));
        let bytes: usize = lens.map(|len| len.map(lines)).sum::<Option<usize>>()?;
        Some(bytes as f64 * self.scale)
    }
}

/// The blocks to look at among `blocks`.
pub(crate) fn sampled(blocks: usize) -> impl Iterator<Item = usize> {
    let count = blocks.min(SAMPLE_BLOCKS);
    (0..count).map(move |i| i * blocks / count)
}
