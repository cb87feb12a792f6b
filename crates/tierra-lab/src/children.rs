//! Child processes of an experiment that do not end by themselves. They end with the lab, even if it is killed.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::sched_setaffinity;

use crate::pin;

/// Starts a process that is killed when the calling thread ends, and so when the lab is killed. If a number is given, the
/// process runs on that one of the lab's CPUs, independent of this thread's CPU.
///
/// # Errors
/// The system's error.
pub(crate) fn start(command: &mut Command, cpu: Option<usize>) -> io::Result<Child> {
    let lab = getpid();
    let cpu = cpu.and_then(pin::cpu_of_process);
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // A lab that ended before this call sends no signal.
        if getppid() != Some(lab) {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        if let Some(cpu) = &cpu {
            // If the system refuses, the process may move between CPUs, which is slower but not wrong.
            let _ = sched_setaffinity(None, cpu);
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls: it allocates nothing (the error is a plain
    // kind, CPU sets are on the stack) and takes no lock.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn ends_with_the_thread_that_started_it() {
        let start_sleep = || {
            let mut command = Command::new("sleep");
            start(command.arg("600").stdin(Stdio::null()), Some(0)).unwrap()
        };
        let mut child = std::thread::spawn(start_sleep).join().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}
