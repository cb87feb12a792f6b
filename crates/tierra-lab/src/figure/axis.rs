//! The axis of values: its range, whether it is logarithmic, and its ticks.

/// Values that differ by more than this factor do not share a linear axis.
const LINEAR_SPAN: f64 = 20.0;
/// A logarithmic axis with up to this many decades has ticks at 2 and 5 as well.
const DECADES_WITH_STEPS: f64 = 3.5;
/// The approximate number of ticks of a linear axis.
const LINEAR_TICKS: f64 = 8.0;

/// A range of values along one side of a plot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
}

/// A labelled position of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    /// Where it is.
    pub(super) value: f64,
    /// What is written there.
    pub(super) label: String,
}

/// A step of 1, 2 or 5 times a power of ten.
#[derive(Clone, Copy, Debug)]
struct Step {
    mantissa: f64,
    exponent: i32,
}

impl Step {
    fn value(self) -> f64 {
        self.mantissa * 10f64.powi(self.exponent)
    }

    /// That many steps as text, with as many decimals as the step has.
    fn label(self, steps: f64) -> String {
        let decimals = (-self.exponent).max(0) as usize;
        format!("{:.decimals$}", steps * self.value())
    }

    /// All steps around a value, ascending.
    fn around(value: f64) -> impl Iterator<Item = Step> {
        let middle = value.log10().floor() as i32;
        (middle - 1..=middle + 1)
            .flat_map(|exponent| [1.0, 2.0, 5.0].map(|mantissa| Step { mantissa, exponent }))
    }
}

impl Axis {
    /// An axis from zero to a little above the highest value.
    pub(super) fn linear(highest: f64) -> Axis {
        Axis {
            low: 0.0,
            high: if highest > 0.0 { highest * 1.05 } else { 1.0 },
            logarithmic: false,
        }
    }

    /// The axis of these values: logarithmic if they span more than a factor of twenty. A zero is not visible there.
    pub(super) fn of_values(values: impl Iterator<Item = f64>) -> Axis {
        let positive = values.filter(|value| *value > 0.0);
        let (lowest, highest) = positive.fold((f64::MAX, 0f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if highest <= lowest * LINEAR_SPAN {
            return Axis::linear(highest);
        }
        // The next step below the lowest value, with a distance: its dot must not touch the axis.
        let low = Step::around(lowest).map(Step::value);
        Axis {
            low: low.filter(|step| *step <= lowest * 0.8).fold(0.0, f64::max),
            high: highest * 1.1,
            logarithmic: true,
        }
    }

    /// Whether lengths along it mean nothing and only positions do.
    pub(super) fn is_logarithmic(self) -> bool {
        self.logarithmic
    }

    /// How far along the axis a value lies, 0 at its low end, 1 at its high one.
    pub(super) fn share(self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        // The logarithm of a negative number is NaN.
        if share.is_nan() {
            0.0
        } else {
            share.clamp(0.0, 1.0)
        }
    }

    /// The labelled positions.
    pub(super) fn ticks(self) -> Vec<Tick> {
        if self.logarithmic {
            return self.logarithmic_ticks();
        }
        let rough = (self.high - self.low) / LINEAR_TICKS;
        let Some(step) = Step::around(rough).find(|step| step.value() >= rough) else {
            return Vec::new();
        };
        (0..)
            .map(f64::from)
            .map_while(|steps| {
                let value = steps * step.value();
                let label = step.label(steps);
                (value <= self.high).then_some(Tick { value, label })
            })
            .collect()
    }

    fn logarithmic_ticks(self) -> Vec<Tick> {
        let (first, last) = (self.low.log10(), self.high.log10());
        let mantissas: &[f64] = if last - first <= DECADES_WITH_STEPS {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let steps = (first.floor() as i32..=last.ceil() as i32).flat_map(|exponent| {
            let step = move |&mantissa: &f64| Step { mantissa, exponent };
            mantissas.iter().map(step)
        });
        // A low end that is a step keeps its tick, despite rounding of its last bit.
        let within =
            steps.filter(|step| step.value() >= self.low * 0.999 && step.value() <= self.high);
        within
            .map(|step| Tick {
                value: step.value(),
                label: step.label(1.0),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn close_values_stay_linear() {
        let near = Axis::of_values([1.0, 19.0].into_iter());
        assert!(!near.is_logarithmic());
        assert_eq!(labels(near), ["0", "5", "10", "15"]);
        assert!(!Axis::of_values([0.0, 1.0].into_iter()).is_logarithmic());
        assert_eq!(near.share(0.0), 0.0);
        assert_eq!(
            labels(Axis::linear(0.5)),
            ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5"]
        );
    }

    #[test]
    fn values_far_apart_have_ticks_within_each_decade() {
        let axis = Axis::of_values([30.0, 700.0].into_iter());
        assert!(axis.is_logarithmic());
        assert_eq!(labels(axis), ["20", "50", "100", "200", "500"]);
        assert!(axis.share(30.0) > 0.0 && axis.share(700.0) < 1.0);
        assert_eq!((axis.share(0.0), axis.share(-1.0)), (0.0, 0.0));
        let wide = Axis::of_values([0.7, 2e5].into_iter());
        assert_eq!(labels(wide), ["1", "10", "100", "1000", "10000", "100000"]);
    }

    #[test]
    fn nothing_to_show_is_still_an_axis() {
        assert_eq!(Axis::linear(0.0).share(0.0), 0.0);
        assert_eq!(labels(Axis::of_values(std::iter::empty()))[0], "0.0");
    }
}
