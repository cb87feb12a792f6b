//! Bars: what an experiment promises, and whether the samples meet it.
//!
//! Only a number meets a bar. A missing sample counts as missed, is never skipped, and is printed as not measured.

use serde::{Deserialize, Serialize};

/// Which side of the bar is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sense {
    /// Measured must not be below the bar.
    AtLeast,
    /// Measured must not be above the bar.
    AtMost,
}

/// One promise, measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// What is measured, with its unit.
    pub what: String,
    /// Which side of the bar is good.
    pub sense: Sense,
    /// The bar itself.
    pub bar: f64,
    /// The measured value; `None` if its samples are missing.
    pub measured: Option<f64>,
    /// Whether the bar is met.
    pub met: bool,
}

impl Bar {
    /// A bar that must not be exceeded.
    pub fn at_most(what: impl Into<String>, bar: f64, measured: Option<f64>) -> Bar {
        Bar::new(what.into(), Sense::AtMost, bar, measured)
    }

    /// A bar that must be reached.
    pub fn at_least(what: impl Into<String>, bar: f64, measured: Option<f64>) -> Bar {
        Bar::new(what.into(), Sense::AtLeast, bar, measured)
    }

    fn new(what: String, sense: Sense, bar: f64, measured: Option<f64>) -> Bar {
        let measured = measured.filter(|value| value.is_finite());
        let met = measured.is_some_and(|value| match sense {
            Sense::AtLeast => value >= bar,
            Sense::AtMost => value <= bar,
        });
        Bar {
            what,
            sense,
            bar,
            measured,
            met,
        }
    }

    /// Whether two computations of a bar agree. A decimal number read from a file may differ in its last bit from the one
    /// written.
    pub fn agrees_with(&self, other: &Bar) -> bool {
        let same_number = match (self.measured, other.measured) {
            (Some(one), Some(another)) => {
                (one - another).abs() <= 1e-9 * one.abs().max(another.abs())
            }
            (one, another) => one == another,
        };
        let stated = |bar: &Bar| (bar.what.clone(), bar.sense, bar.met);
        same_number && self.bar == other.bar && stated(self) == stated(other)
    }

    /// The bar as a line of the printed table: what, bar, measured, met.
    pub fn cells(&self) -> [String; 4] {
        let sense = match self.sense {
            Sense::AtLeast => "at least",
            Sense::AtMost => "at most",
        };
        [
            self.what.clone(),
            format!("{sense} {}", self.bar),
            self.measured
                .map_or_else(|| "-".to_owned(), |value| format!("{value:.3}")),
            match self.measured {
                None => "not measured",
                Some(_) if self.met => "met",
                Some(_) => "MISSED",
            }
            .to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_the_bar_is_met_and_beyond_it_is_missed() {
        assert!(Bar::at_most("a", 1.0, Some(1.0)).met);
        assert!(!Bar::at_most("a", 1.0, Some(1.001)).met);
        assert!(Bar::at_least("a", 20.0, Some(20.0)).met);
        assert!(!Bar::at_least("a", 20.0, Some(19.9)).met);
    }

    #[test]
    fn agreement_forgives_the_last_bit_and_nothing_else() {
        let bar = |measured| Bar::at_most("a", 1.1, measured);
        let ratio = 0.1 + 0.2;
        assert!(bar(Some(ratio)).agrees_with(&bar(Some(0.3))));
        assert!(!bar(Some(ratio)).agrees_with(&bar(Some(0.300_001))));
        assert!(!bar(Some(ratio)).agrees_with(&bar(None)));
        assert!(!bar(Some(ratio)).agrees_with(&Bar::at_most("a", 1.2, Some(ratio))));
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        assert!(!Bar::at_most("a", 1.0, None).met);
        assert!(!Bar::at_least("a", 1.0, Some(f64::NAN)).met);
        assert_eq!(Bar::at_most("a", 1.0, None).cells()[3], "not measured");
        assert_eq!(Bar::at_most("a", 1.0, Some(2.0)).cells()[3], "MISSED");
        assert!(!Bar::at_most("a", 1.0, Some(f64::NEG_INFINITY)).met);
    }
}
