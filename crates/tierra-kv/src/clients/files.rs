//! How many connections the system lets the process have open at once.
//!
//! Each is an open file. Most systems let a process have 1,024 of them until it asks for more.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are no connections: listeners, pools, what is asked of the system. As many as Redis reckons.
const OTHER_FILES: u64 = 32;

/// Of so many connections those that the system allows, once it has been asked to allow all of them.
pub(crate) fn connections_allowed(wanted: usize) -> usize {
    let needed = (wanted as u64).saturating_add(OTHER_FILES);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Without a limit there is nothing to ask for.
    let mut allowed = current.unwrap_or(u64::MAX);
    if allowed < needed {
        let asked = needed.min(maximum.unwrap_or(u64::MAX));
        let limit = Rlimit {
            current: Some(asked),
            maximum,
        };
        if setrlimit(Resource::Nofile, limit).is_ok() {
            allowed = asked;
        }
    }
    wanted.min(allowed.saturating_sub(OTHER_FILES).max(1) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_asked_for_what_is_wanted() {
        assert_eq!(connections_allowed(10), 10);
        let maximum = getrlimit(Resource::Nofile).maximum;
        let most = connections_allowed(1 << 40);
        let Some(maximum) = maximum else { return };
        assert_eq!(most as u64, (maximum - OTHER_FILES).min(1 << 40));
        assert!(
            getrlimit(Resource::Nofile)
                .current
                .is_none_or(|now| now == maximum)
        );
        assert_eq!(connections_allowed(most), most);
    }
}
