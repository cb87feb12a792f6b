//! Processes that an experiment starts and that do not end by themselves: they end when the lab does, however it ends.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::sched_setaffinity;

use crate::pin;

/// Starts a process that is killed when the thread that calls this ends, and thus when the lab is killed; if a
/// number is given, on that one of the CPUs that the lab may use, wherever this thread is.
///
/// # Errors
/// What the system says.
pub(crate) fn start(command: &mut Command, cpu: Option<usize>) -> io::Result<Child> {
    let lab = getpid();
    let cpu = cpu.and_then(pin::cpu_of_process);
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // A lab that ended before the signal was asked for sends none.
        if getppid() != Some(lab) {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        if let Some(cpu) = &cpu {
            // Where the system refuses, the process wanders, which is slower and not wrong.
            let _ = sched_setaffinity(None, cpu);
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes system calls alone: it allocates nothing (the error is a plain
    // kind, CPU sets lie on the stack) and takes no lock.
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
