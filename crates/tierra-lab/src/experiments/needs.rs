//! What an experiment takes at full scale: rough values for planning, from runs on two Zen 5 cores.

/// Upper bounds for two cores, with margins wide enough for other machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// From the command to the results.
    pub minutes: u32,
    /// Memory, files on tmpfs included.
    pub memory_gib: u32,
    /// Files under `--scratch`.
    pub scratch_gib: u32,
}

const fn needs(minutes: u32, memory_gib: u32, scratch_gib: u32) -> Needs {
    Needs {
        minutes,
        memory_gib,
        scratch_gib,
    }
}

/// By name: minutes, memory, scratch.
const NEEDS: [(&str, Needs); 51] = [
    ("ssb", needs(2, 4, 2)),
    ("ssb-10", needs(15, 16, 8)),
    ("tpch", needs(2, 4, 2)),
    ("sums", needs(2, 2, 1)),
    ("access", needs(30, 6, 2)),
    ("access-10", needs(60, 16, 10)),
    ("access-ssb", needs(20, 6, 2)),
    ("access-misses", needs(60, 2, 1)),
    ("cocktail", needs(10, 4, 1)),
    ("load", needs(2, 4, 2)),
    ("scan", needs(2, 1, 0)),
    ("point", needs(5, 4, 2)),
    ("changes", needs(20, 8, 6)),
    ("commits", needs(50, 4, 10)),
    ("tpcc", needs(10, 4, 4)),
    ("wire", needs(20, 6, 4)),
    ("sql-fuzz", needs(120, 4, 0)),
    ("sql-writes", needs(10, 2, 0)),
    ("floor", needs(2, 2, 1)),
    ("memory", needs(5, 6, 1)),
    ("emulation", needs(20, 1, 0)),
    ("fig1", needs(10, 18, 0)),
    ("fig2", needs(5, 3, 0)),
    ("fig3", needs(30, 8, 3)),
    ("fig4", needs(5, 6, 12)),
    ("fig5", needs(5, 6, 10)),
    ("compress", needs(30, 3, 0)),
    ("pcr-read", needs(10, 10, 0)),
    ("pcr-append", needs(5, 4, 0)),
    ("pcr-mixed", needs(10, 4, 0)),
    ("pcr-ssb", needs(10, 12, 2)),
    ("replica-choice", needs(10, 6, 0)),
    ("crash", needs(60, 1, 0)),
    ("kill", needs(10, 1, 0)),
    ("faults", needs(4, 1, 0)),
    ("recover", needs(2, 12, 0)),
    ("elision", needs(2, 2, 0)),
    ("residency", needs(10, 6, 0)),
    ("lookups-kv", needs(2, 2, 0)),
    ("replicate", needs(2, 6, 0)),
    ("replicate-chunk", needs(2, 4, 0)),
    ("replicate-switch", needs(2, 4, 0)),
    ("updates", needs(3, 10, 0)),
    ("kv-window", needs(2, 6, 0)),
    ("kv-memory", needs(2, 4, 0)),
    ("ycsb-threshold", needs(5, 8, 0)),
    ("ycsb-ratio", needs(5, 8, 0)),
    ("ycsb-dynamic", needs(30, 16, 0)),
    ("ycsb-served", needs(5, 10, 0)),
    ("kv-shift", needs(2, 4, 0)),
    ("kv-peers", needs(5, 12, 0)),
];

impl Needs {
    /// The needs of the experiment of that name.
    pub fn of(name: &str) -> Option<Needs> {
        let found = NEEDS.iter().find(|(known, _)| *known == name);
        found.map(|(_, needs)| *needs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::all;

    #[test]
    fn every_experiment_says_what_it_takes() {
        for experiment in all() {
            let name = experiment.name();
            assert!(Needs::of(name).is_some(), "{name} does not");
        }
    }
}
