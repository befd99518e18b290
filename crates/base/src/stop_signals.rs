//! The names of stop signals in the API, and their numbers in the CRI. Neither is the number of a signal in the kernel.

/// The names (`lifecycle.stopSignal`) in the order of the CRI's numbers, which begin with 1: 0 is the signal that the runtime chooses.
pub const STOP_SIGNALS: [&str; 65] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMAX-14",
    "SIGRTMAX-13",
    "SIGRTMAX-12",
    "SIGRTMAX-11",
    "SIGRTMAX-10",
    "SIGRTMAX-9",
    "SIGRTMAX-8",
    "SIGRTMAX-7",
    "SIGRTMAX-6",
    "SIGRTMAX-5",
    "SIGRTMAX-4",
    "SIGRTMAX-3",
    "SIGRTMAX-2",
    "SIGRTMAX-1",
    "SIGRTMAX",
];

/// The CRI's number of a signal; `None` if the API has no such signal.
pub fn stop_signal_number(name: &str) -> Option<i32> {
    let index = STOP_SIGNALS.iter().position(|known| *known == name)?;
    i32::try_from(index).ok().map(|index| index + 1)
}

/// The API's name of a signal; `None` for a number that the runtime has not set, or that the API has no name for.
pub fn stop_signal_name(number: i32) -> Option<&'static str> {
    let index = usize::try_from(number).ok()?.checked_sub(1)?;
    STOP_SIGNALS.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_equal_the_cris() {
        for (name, number) in [
            ("SIGABRT", 1),
            ("SIGKILL", 13),
            ("SIGTERM", 23),
            ("SIGRTMIN", 35),
            ("SIGRTMIN+15", 50),
            ("SIGRTMAX-14", 51),
            ("SIGRTMAX", 65),
        ] {
            assert_eq!(
                (stop_signal_number(name), stop_signal_name(number)),
                (Some(number), Some(name)),
                "{name}"
            );
        }
        assert_eq!((stop_signal_number("TERM"), stop_signal_number("")), (None, None));
        assert!([-1, 0, 66].into_iter().all(|number| stop_signal_name(number).is_none()));
    }
}
