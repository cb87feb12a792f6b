//! Whole numbers of any size, as far as decimal text needs them: little-endian 32-bit digits.

use std::cmp::Ordering;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Big(Vec<u32>);

impl Big {
    pub(super) fn new(value: u64) -> Self {
        let mut big = Self(vec![value as u32, (value >> 32) as u32]);
        big.trim();
        big
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// `self * factor + term`.
    pub(super) fn mul_add(&mut self, factor: u32, term: u32) {
        let mut carry = u64::from(term);
        for digit in &mut self.0 {
            let product = u64::from(*digit) * u64::from(factor) + carry;
            *digit = product as u32;
            carry = product >> 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
        self.trim();
    }

    /// Times ten to the power of `exponent`.
    pub(super) fn mul_power_of_ten(&mut self, mut exponent: usize) {
        while exponent > 0 {
            let step = exponent.min(9);
            self.mul_add(10u32.pow(step as u32), 0);
            exponent -= step;
        }
    }

    /// Divides by `divisor` in place and returns the remainder.
    pub(super) fn div_rem(&mut self, divisor: u32) -> u32 {
        let mut rest = 0u64;
        for digit in self.0.iter_mut().rev() {
            let part = rest << 32 | u64::from(*digit);
            *digit = (part / u64::from(divisor)) as u32;
            rest = part % u64::from(divisor);
        }
        self.trim();
        rest as u32
    }

    pub(super) fn bits(&self) -> usize {
        self.0
            .last()
            .map_or(0, |top| self.0.len() * 32 - top.leading_zeros() as usize)
    }

    pub(super) fn shl(&mut self, bits: usize) {
        if self.is_zero() {
            return;
        }
        let (words, bits) = (bits / 32, bits % 32);
        if bits > 0 {
            self.mul_add(1 << bits, 0);
        }
        self.0.splice(0..0, std::iter::repeat_n(0, words));
    }

    pub(super) fn sub(&mut self, other: &Big) {
        debug_assert!(self.cmp(other) != Ordering::Less);
        let mut borrow = false;
        for (at, digit) in self.0.iter_mut().enumerate() {
            let (part, first) = digit.overflowing_sub(other.0.get(at).copied().unwrap_or(0));
            let (part, second) = part.overflowing_sub(u32::from(borrow));
            *digit = part;
            borrow = first || second;
        }
        self.trim();
    }

    pub(super) fn cmp(&self, other: &Big) -> Ordering {
        self.0
            .len()
            .cmp(&other.0.len())
            .then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// The 64 bits from `from` on, and whether a bit below them is set.
    pub(super) fn bits_from(&self, from: usize) -> (u64, bool) {
        let word = |at: usize| u128::from(self.0.get(at).copied().unwrap_or(0));
        let (at, shift) = (from / 32, from % 32);
        let window = word(at) | word(at + 1) << 32 | word(at + 2) << 64;
        let below = self.0[..at.min(self.0.len())]
            .iter()
            .any(|&digit| digit != 0)
            || (word(at) & ((1 << shift) - 1)) != 0;
        ((window >> shift) as u64, below)
    }

    /// Decimal digits.
    pub(super) fn decimal(mut self) -> Vec<u8> {
        let mut digits = Vec::new();
        while !self.is_zero() {
            let mut group = self.div_rem(1_000_000_000);
            for _ in 0..9 {
                digits.push(b'0' + (group % 10) as u8);
                group /= 10;
            }
        }
        while digits.len() > 1 && digits.last() == Some(&b'0') {
            digits.pop();
        }
        if digits.is_empty() {
            digits.push(b'0');
        }
        digits.reverse();
        digits
    }
}
