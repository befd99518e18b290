//! The state of the kernel's clock. Sets nothing.

/// Whether the clock is synchronized (adjtimex(2)), whatever daemon does that; `None` if the kernel does not say.
pub fn clock_is_synchronized() -> Option<bool> {
    #[allow(unsafe_code, reason = "adjtimex(2) has no safe interface")]
    // SAFETY: `timex` is plain numbers, for which zeros are valid; mode 0 only reads, into a structure that outlives the call.
    let status = unsafe {
        let mut timex: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&raw mut timex) >= 0).then_some(timex.status)
    };
    status.map(|status| status & libc::STA_UNSYNC == 0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_says() {
        assert!(super::clock_is_synchronized().is_some());
    }
}
