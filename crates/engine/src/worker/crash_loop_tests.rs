//! Histories of a container that exits, and the back-off after each.

use proptest::prelude::*;

use super::*;
use hostlet_base::testing::at;
use hostlet_pod::testing;

const CAP: Duration = Duration::from_secs(300);

fn ended(attempt: u32, created: i64, finished: i64) -> ContainerStatus {
    ContainerStatus {
        created_at: at(created),
        finished_at: Some(at(finished)),
        ..testing::exited("c", attempt, 1)
    }
}

#[test]
fn pauses_double_from_ten_seconds_to_the_cap() {
    let mut loops = CrashLoops::new(CAP, Vec::new());
    let mut now = 1000;
    let mut pauses = Vec::new();
    for attempt in 0..8 {
        let status = ended(attempt, now, now + 1);
        match loops.in_force(&status, at(now + 1)) {
            Some((pause, over)) => {
                assert_eq!(over, at(now + 1 + i64::try_from(pause.as_secs()).unwrap()));
                assert!(loops.in_force(&status, over).is_none());
                pauses.push(pause.as_secs());
                now = over.as_second();
            }
            None => {
                pauses.push(0);
                now += 1;
            }
        }
        loops.restarted(&status, at(now));
    }
    assert_eq!(pauses, [0, 10, 20, 40, 80, 160, 300, 300]);
}

#[test]
fn a_long_run_resets_the_count() {
    let mut loops = CrashLoops::new(CAP, Vec::new());
    loops.restarted(&ended(4, 0, 1), at(10));
    let status = ended(5, 10, 10 + 601);
    assert!(loops.in_force(&status, at(611)).is_none());
    loops.restarted(&status, at(611));
    assert_eq!(loops.in_force(&ended(6, 611, 612), at(612)).unwrap().0, INITIAL);
}

#[test]
fn a_clock_set_by_a_day_holds_no_container_back() {
    const DAY: i64 = 86_400;
    for step in [-DAY, DAY] {
        let mut loops = CrashLoops::new(CAP, Vec::new());
        loops.restarted(&ended(1, 10 * DAY, 10 * DAY + 1), at(10 * DAY + 1));
        let status = ended(2, 10 * DAY + 1, 10 * DAY + 2);
        assert_eq!(loops.in_force(&status, at(10 * DAY + 2)).unwrap().0.as_secs(), 20);
        let now = 10 * DAY + 2 + step;
        assert!(loops.in_force(&status, at(now)).is_none(), "the clock was set by {step} s");
        loops.restarted(&status, at(now));
        let again = ended(3, now, now + 1);
        assert_eq!(loops.in_force(&again, at(now + 1)).unwrap().0.as_secs(), 40);
    }
}

#[test]
fn a_cap_below_ten_seconds_is_the_first_pause_too() {
    let mut loops = CrashLoops::new(Duration::from_secs(2), Vec::new());
    loops.restarted(&ended(0, 0, 1), at(1));
    assert_eq!(loops.in_force(&ended(1, 1, 2), at(2)).unwrap().0.as_secs(), 2);
}

#[test]
fn a_changed_definition_starts_with_a_clean_slate() {
    let mut loops = CrashLoops::new(CAP, Vec::new());
    loops.restarted(&ended(0, 0, 1), at(1));
    for attempt in 1..6 {
        loops.restarted(&ended(attempt, 1000, 1001), at(1001));
    }
    // Attempts go on counting.
    let changed = |attempt| ContainerStatus { hash: Some(7), ..ended(attempt, 2000, 2001) };
    assert!(loops.in_force(&changed(6), at(2001)).is_none());
    // The end of the old one was not counted: it was stopped for the change.
    assert_eq!(loops.in_force(&changed(7), at(2001)).unwrap().0, INITIAL);
    loops.restarted(&changed(6), at(2001));
    assert_eq!(loops.in_force(&changed(7), at(2001)).unwrap().0, INITIAL);
}

#[test]
fn restarts_for_other_reasons_than_a_crash_do_not_count() {
    for is_new_daemon in [false, true] {
        let mut loops = CrashLoops::new(CAP, Vec::new());
        // Changed definitions, and then requests and resizes.
        for attempt in 0..5 {
            loops.replaced(&ContainerStatus { hash: Some(attempt), ..ended(attempt, 1000, 1001) }, at(1001));
        }
        for attempt in 5..9 {
            loops.replaced(&ended(attempt, 1000, 1001), at(1001));
        }
        let mut loops = if is_new_daemon { CrashLoops::new(CAP, loops.stored()) } else { loops };
        assert_eq!(loops.in_force(&ended(9, 1001, 1002), at(1002)), None, "the first crash");
        loops.restarted(&ended(9, 1001, 1002), at(1002));
        assert_eq!(loops.in_force(&ended(10, 1002, 1003), at(1003)).unwrap().0, INITIAL, "the second");
        loops.replaced(&ended(10, 1002, 1003), at(1003));
        assert_eq!(loops.in_force(&ended(11, 1003, 1004), at(1004)).unwrap().0, INITIAL, "as before");
    }
}

#[test]
fn restarts_because_of_a_probe_are_reset_by_time() {
    let mut loops = CrashLoops::new(CAP, Vec::new());
    let instance = |attempt| ended(attempt, 1000, 1001);
    for attempt in 0..5 {
        loops.restarted_after(&instance(attempt), &instance(attempt + 1), at(1001));
    }
    let before = instance(5);
    assert!(loops.in_force_after(&before, at(1002)).is_some());
    assert_eq!(loops.in_force_after(&before, at(1001 + 601)), None);
    loops.restarted_after(&before, &instance(6), at(1001 + 601));
    let next = ended(6, 1602, 1605);
    assert_eq!(loops.in_force_after(&next, at(1606)).unwrap().0, INITIAL);
}

#[test]
fn restarts_because_of_a_probe_count_once_among_crashes() {
    for is_new_daemon in [false, true] {
        let mut loops = CrashLoops::new(CAP, Vec::new());
        loops.restarted(&ended(0, 0, 1), at(1));
        // Attempt 1 fails its probe, attempt 2 crashes.
        loops.restarted_after(&ended(0, 0, 1), &ended(1, 1, 2), at(2));
        let mut loops = if is_new_daemon { CrashLoops::new(CAP, loops.stored()) } else { loops };
        assert_eq!(loops.in_force(&ended(2, 2, 3), at(3)).unwrap().0, 2 * INITIAL);
        loops.restarted(&ended(2, 2, 3), at(23));
        assert_eq!(loops.in_force(&ended(3, 23, 24), at(24)).unwrap().0, 4 * INITIAL);
    }
}

#[test]
fn attempts_of_another_definition_do_not_count() {
    let mut loops = CrashLoops::new(CAP, Vec::new());
    for attempt in 0..3 {
        loops.restarted(&ended(attempt, 1000, 1001), at(1001));
    }
    for attempt in 3..6 {
        let other = ContainerStatus { hash: Some(7), ..ended(attempt, 1001, 1002) };
        loops.replaced(&other, at(1002));
    }
    assert_eq!(loops.in_force(&ended(6, 1002, 1003), at(1003)).unwrap().0, 4 * INITIAL, "as before");
}

#[test]
fn other_resources_begin_a_new_back_off() {
    let with = |memory_limit| Enforced { memory_limit, ..Enforced::default() };
    let mut loops = CrashLoops::new(CAP, Vec::new());
    loops.set_resources("c", with(1 << 20));
    for attempt in 0..5 {
        loops.restarted(&ended(attempt, 1000, 1001), at(1001));
    }
    assert!(loops.in_force(&ended(5, 1001, 1002), at(1003)).is_some());
    for is_new_daemon in [false, true] {
        let stored = loops.stored();
        let mut loops = if is_new_daemon { CrashLoops::new(CAP, stored) } else { loops.clone() };
        assert!(loops.in_force(&ended(5, 1001, 1002), at(1003)).is_some(), "those of before");
        loops.set_resources("c", with(1 << 30));
        assert_eq!(loops.in_force(&ended(5, 1001, 1002), at(1003)), None);
        loops.restarted(&ended(5, 1001, 1002), at(1003));
        assert_eq!(loops.in_force(&ended(6, 1003, 1004), at(1004)).unwrap().0, INITIAL);
    }
}

#[test]
fn counts_of_earlier_definitions_are_forgotten() {
    let mut loops = CrashLoops::new(CAP, Vec::new());
    for attempt in 0..100 {
        let now = i64::from(attempt) * 1000;
        loops.restarted(&ContainerStatus { hash: Some(attempt), ..ended(attempt, now, now) }, at(now));
    }
    assert_eq!(loops.entries.len(), 1);
}

#[test]
fn counts_stored_by_an_earlier_version_are_read() {
    let text = r#"[{"container": "c", "attempt": 3, "delayMs": 40000, "restarted": "1970-01-01T00:00:10Z"}]"#;
    let loops = CrashLoops::new(CAP, serde_json::from_str(text).unwrap());
    assert_eq!(loops.in_force(&ended(4, 10, 12), at(12)).unwrap().0.as_secs(), 40);
    assert_eq!(
        serde_json::to_value(loops.stored()).unwrap(),
        serde_json::from_str::<serde_json::Value>(text).unwrap()
    );
}

#[test]
fn a_long_run_is_remembered_where_the_attempt_would_mislead() {
    let mut loops = CrashLoops::new(CAP, Vec::new());
    loops.restarted(&ended(6, 0, 1), at(10));
    loops.restarted(&ended(7, 10, 10 + 601), at(611));
    let next = CrashLoops::new(CAP, loops.stored());
    let status = ended(8, 611, 612);
    assert_eq!(next.in_force(&status, at(612)), Some((INITIAL, at(622))));
    let without = CrashLoops::new(CAP, Vec::new());
    assert_eq!(without.in_force(&status, at(612)).unwrap().0, CAP);
}

#[test]
fn a_count_that_was_lost_with_the_runtimes_containers_is_no_way_out() {
    let mut loops = CrashLoops::new(CAP, Vec::new());
    loops.restarted(&ended(0, 0, 1), at(1));
    // The containers vanished, attempts started over, and the later count was not stored.
    let next = CrashLoops::new(CAP, loops.stored());
    assert_eq!(next.in_force(&ended(1, 5000, 5001), at(5002)), Some((INITIAL, at(5011))));
}

#[test]
fn a_stored_pause_is_no_longer_than_the_cap_of_today() {
    let mut loops = CrashLoops::new(CAP, Vec::new());
    loops.restarted(&ended(9, 0, 1), at(10));
    let next = CrashLoops::new(Duration::from_secs(20), loops.stored());
    assert_eq!(next.in_force(&ended(10, 10, 12), at(12)).unwrap().0.as_secs(), 20);
}

#[test]
fn a_clock_that_was_set_while_no_daemon_ran_prolongs_nothing() {
    const DAY: i64 = 86_400;
    for step in [-DAY, DAY] {
        let mut loops = CrashLoops::new(CAP, Vec::new());
        loops.restarted(&ended(1, 10 * DAY, 10 * DAY + 1), at(10 * DAY + 1));
        let next = CrashLoops::new(CAP, loops.stored());
        let before = ended(2, 10 * DAY + 1, 10 * DAY + 2);
        assert!(next.in_force(&before, at(10 * DAY + 2 + step)).is_none(), "{step}");
        let now = 10 * DAY + 5 + step;
        let after = ended(2, 10 * DAY + 1, now);
        let pause = next.in_force(&after, at(now)).map(|(pause, _)| pause.as_secs());
        assert!(pause.is_none_or(|pause| pause <= 20), "{step}: {pause:?}");
    }
}

proptest! {
    /// A daemon that is killed between any two crashes continues exactly as without the kill, also when long runs reset
    /// the count, and also when what it stored last did not get to the disk and the loop was unbroken since.
    #[test]
    fn what_was_stored_goes_on_exactly(
        runs in proptest::collection::vec(prop_oneof![4 => 0i64..60, 1 => 590i64..700], 1..12),
        killed_after in 0usize..12,
        lost in 0usize..3,
    ) {
        let mut loops = CrashLoops::new(CAP, Vec::new());
        let mut other = loops.clone();
        let mut written = Vec::new();
        let mut now = 1000;
        for (attempt, run) in runs.iter().enumerate() {
            if attempt == killed_after {
                let known = written.len().saturating_sub(lost);
                let unbroken = runs[known..attempt].iter().all(|run| *run < 60);
                let stored = if unbroken { written[..known].last() } else { written.last() };
                other = CrashLoops::new(CAP, stored.cloned().unwrap_or_default());
            }
            let status = ended(u32::try_from(attempt).unwrap(), now, now + run);
            let one = loops.in_force(&status, at(now + run));
            prop_assert_eq!(one, other.in_force(&status, at(now + run)));
            now = one.map_or(now + run, |(_, over)| over.as_second());
            loops.restarted(&status, at(now));
            other.restarted(&status, at(now));
            written.push(loops.stored());
        }
    }

    /// A daemon restarted between any two crashes of an unbroken loop counts on as its predecessor would have.
    #[test]
    fn a_new_daemon_inherits_the_back_off(crashes in 1u32..9, restart_after in 0u32..9, run in 0i64..60) {
        let mut loops = CrashLoops::new(CAP, Vec::new());
        let mut fresh = CrashLoops::new(CAP, Vec::new());
        let mut now = 1000;
        for attempt in 0..crashes {
            if attempt == restart_after {
                fresh = CrashLoops::new(CAP, Vec::new());
            }
            let status = ended(attempt, now, now + run);
            let one = loops.in_force(&status, at(now + run));
            let other = fresh.in_force(&status, at(now + run));
            prop_assert_eq!(one, other);
            now = one.map_or(now + run, |(_, over)| over.as_second());
            loops.restarted(&status, at(now));
            fresh.restarted(&status, at(now));
        }
    }
}
