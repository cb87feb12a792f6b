//! The part of Thrift's compact protocol that states lengths.
//!
//! A field is a byte with its type and its distance from the previous field. Numbers are varints. Lists and strings begin
//! with their length. Only the numbers of page headers are kept.

use std::io::Read;

use super::fault::{Fault, damaged};

/// The most levels of nested structures.
const LEVELS_MOST: usize = 32;

const BOOLEAN: [u8; 2] = [1, 2];
const BYTE: u8 = 3;
const INTEGERS: [u8; 3] = [4, 5, 6];
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LISTS: [u8; 2] = [9, 10];
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// A structure that is read from its beginning to its end.
pub(super) struct Compact<R> {
    bytes: R,
    /// The most bytes left.
    left: u64,
}

impl<R: Read> Compact<R> {
    pub(super) fn new(bytes: R, left: u64) -> Self {
        Self { bytes, left }
    }

    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Reads a structure. `see` gets each number in it with the path of field ids to it.
    pub(super) fn structure(&mut self, see: &mut dyn FnMut(&[i64], i64)) -> Result<(), Fault> {
        self.fields(&mut Vec::new(), see)
    }

    fn fields(
        &mut self,
        path: &mut Vec<i64>,
        see: &mut dyn FnMut(&[i64], i64),
    ) -> Result<(), Fault> {
        if path.len() >= LEVELS_MOST {
            return damaged("its metadata nests too deeply");
        }
        let mut id = 0_i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            id = match head >> 4 {
                0 => self.number()?,
                distance => id.wrapping_add(i64::from(distance)),
            };
            path.push(id);
            let ty = head & 0x0f;
            if !BOOLEAN.contains(&ty) {
                self.value(ty, path, see)?;
            }
            path.pop();
        }
    }

    fn value(
        &mut self,
        ty: u8,
        path: &mut Vec<i64>,
        see: &mut dyn FnMut(&[i64], i64),
    ) -> Result<(), Fault> {
        match ty {
            // In a list it is a byte; in a structure the type holds the value.
            ty if ty == BYTE || BOOLEAN.contains(&ty) => self.byte().map(drop),
            ty if INTEGERS.contains(&ty) => {
                let number = self.number()?;
                see(path, number);
                Ok(())
            }
            DOUBLE => self.skip(8),
            BINARY => {
                let length = self.varint()?;
                self.skip(length)
            }
            ty if LISTS.contains(&ty) => {
                let head = self.byte()?;
                let length = match head >> 4 {
                    15 => self.varint()?,
                    short => u64::from(short),
                };
                self.items(length, &[head & 0x0f], path, see)
            }
            MAP => {
                let length = self.varint()?;
                if length == 0 {
                    return Ok(());
                }
                let types = self.byte()?;
                self.items(length, &[types >> 4, types & 0x0f], path, see)
            }
            STRUCT => self.fields(path, see),
            other => damaged(format!("its metadata has a field of type {other}")),
        }
    }

    /// Each item takes at least one byte, so there are at most as many items as bytes.
    fn items(
        &mut self,
        length: u64,
        types: &[u8],
        path: &mut Vec<i64>,
        see: &mut dyn FnMut(&[i64], i64),
    ) -> Result<(), Fault> {
        if length > self.left {
            let left = self.left;
            return damaged(format!(
                "its metadata has a list of {length} items in {left} bytes"
            ));
        }
        path.push(-1);
        for _ in 0..length {
            for ty in types {
                self.value(*ty, path, see)?;
            }
        }
        path.pop();
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        self.take(1)?;
        let mut byte = [0];
        self.bytes.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn varint(&mut self) -> Result<u64, Fault> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        damaged("its metadata has a number of more than 64 bits")
    }

    fn number(&mut self) -> Result<i64, Fault> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn skip(&mut self, bytes: u64) -> Result<(), Fault> {
        self.take(bytes)?;
        let skipped = std::io::copy(&mut self.bytes.by_ref().take(bytes), &mut std::io::sink())?;
        match skipped == bytes {
            true => Ok(()),
            false => damaged("it is cut short"),
        }
    }

    fn take(&mut self, bytes: u64) -> Result<(), Fault> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => damaged("its metadata extends beyond the end of the file"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<(Vec<i64>, i64)>, Fault> {
        let mut seen = Vec::new();
        let mut compact = Compact::new(bytes, bytes.len() as u64);
        compact.structure(&mut |path, number| seen.push((path.to_vec(), number)))?;
        Ok(seen)
    }

    #[test]
    fn numbers_are_told_with_their_places() {
        // 1: i32 -1; 3: list of two i32, 5 and 6; 4: struct with 2: i64 300; 5: text.
        let bytes = [
            0x15, 1, 0x29, 0x25, 10, 12, 0x1c, 0x26, 0xd8, 4, 0, 0x18, 2, b'a', b'b', 0,
        ];
        let expected = [
            (vec![1], -1),
            (vec![3, -1], 5),
            (vec![3, -1], 6),
            (vec![4, 2], 300),
        ];
        assert_eq!(read(&bytes).unwrap(), expected);
    }

    #[test]
    fn lengths_beyond_the_end_are_faults() {
        for bytes in [
            &[0x19, 0xf5, 0xff, 0xff, 0xff, 0x7f][..],
            &[0x18, 0x7f, b'a'],
            &[0x15],
            &[0x1c; 64],
            &[
                0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            ],
        ] {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
    }
}
