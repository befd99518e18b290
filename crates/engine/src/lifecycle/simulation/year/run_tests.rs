//! A week of a node in every test, a whole year on request.
//!
//! `HOSTLET_SIMULATION_DAYS` is the number of days; a year is `just year`.

use std::time::Duration;

use tokio::time::Instant;

use super::world::{Footprint, Year};

const DAY: Duration = Duration::from_secs(86_400);
/// Days of the short test, and its pods per day.
const DAYS: u64 = 7;
const FEW_PODS: u64 = 100;
/// Pods per day of the long one: a hundred thousand in a year.
const MANY_PODS: u64 = 274;
/// One boot of the host in so many days: fifty in a year, and some while the API server is away.
const BOOT_EVERY: u64 = 4;
/// One outage of the API server in so many days, twenty in a year, and the days of each.
const OUTAGE_EVERY: u64 = 10;
const OUTAGE: std::ops::Range<u64> = 2..4;
/// How many series may be those of something that happens for the first time in the last day of the short test, and in the last months of
/// the long one: the first eviction because of a signal makes fifteen. A leak makes one for each of thousands of pods and images.
const NEW_SERIES: usize = 20;
const MANY_NEW_SERIES: usize = 100;
/// By how much the memory of a daemon may grow, bytes: a megabyte in a year, and in the last day of the short test less than a kilobyte for
/// each pod.
const GROWTH: isize = 1 << 20;
const SHORT_GROWTH: isize = 80 << 10;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// What happens in a run of so many days.
#[derive(Clone, Copy)]
struct Calendar {
    days: u64,
    pods: usize,
}

impl Calendar {
    /// Lets these days pass, with boots and outages unless they are quiet.
    async fn pass(self, year: &mut Year, days: std::ops::Range<u64>, is_quiet: bool) {
        let start = Instant::now();
        let (first, length) = (days.start, days.end - days.start);
        let planned = |elapsed: Duration| {
            let share = elapsed.as_secs_f64() / (DAY.as_secs_f64() * length as f64);
            (self.pods as f64 * length as f64 / self.days as f64 * share) as usize
        };
        let (created, mut last) = (year.created, u64::MAX);
        while start.elapsed() < DAY * u32::try_from(length).unwrap() {
            let day = first + start.elapsed().as_secs() / DAY.as_secs();
            if !is_quiet && day != last {
                last = day;
                year.set_away(OUTAGE.contains(&(day % OUTAGE_EVERY)));
                if day % BOOT_EVERY == BOOT_EVERY - 1 {
                    year.reboot().await;
                }
            }
            let missing = planned(start.elapsed()).saturating_sub(year.created - created);
            year.step(missing).await;
        }
    }
}

async fn run(seed: u64, calendar: Calendar) -> (Year, [Footprint; 3]) {
    let days = calendar.days;
    let mut year = Year::new(seed).await;
    let (first, quiet) = ((days / 8).max(1), days - (days / 3).max(3));
    // Until what is kept of the last removed pods is as much as it will be.
    let settled = quiet + 2;
    calendar.pass(&mut year, 0..first, true).await;
    let begin = year.clear().await;
    calendar.pass(&mut year, first..quiet, false).await;
    year.set_away(false);
    year.reboot().await;
    calendar.pass(&mut year, quiet..settled, true).await;
    let middle = year.clear().await;
    // One daemon, without a boot: nothing hides a leak.
    calendar.pass(&mut year, settled..days, true).await;
    let end = year.clear().await;
    (year, [begin, middle, end])
}

#[test]
fn a_node_left_alone_keeps_its_disk_free_and_nothing_of_what_was_removed() {
    let wanted = setting("HOSTLET_SIMULATION_DAYS");
    let (days, pods_per_day) = wanted.map_or((DAYS, FEW_PODS), |days| (days, MANY_PODS));
    assert!(days >= DAYS, "HOSTLET_SIMULATION_DAYS is at least {DAYS}");
    let calendar = Calendar { days, pods: usize::try_from(days * pods_per_day).unwrap() };
    let seed = setting("HOSTLET_SIMULATION_SEED").unwrap_or(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let (year, footprints) = run(seed, calendar).await;
        let Year { created, evicted, removed_images, .. } = &year;
        println!(
            "{days} days: {created} pods, {removed_images} images removed, {evicted} evicted, {footprints:?}"
        );
        let [begin, middle, end] = footprints;
        let (growth, new_series) =
            if wanted.is_some() { (GROWTH, MANY_NEW_SERIES) } else { (SHORT_GROWTH, NEW_SERIES) };
        assert!(end.heap - middle.heap <= growth, "{footprints:?}");
        assert!(end.heap - begin.heap <= GROWTH, "{footprints:?}");
        assert!(end.series <= middle.series + new_series, "{footprints:?}");
        // None come while the API server is away.
        assert!(*created >= calendar.pods * 2 / 3, "only {created} pods");
        assert!(*removed_images as u64 > days * 3, "only {removed_images} images were removed");
    });
}
