//! Durations as kubectl prints them: two or three significant figures.

use jiff::SignedDuration;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// A duration as kubectl prints ages (apimachinery `duration.HumanDuration`). One second into the future is now: clocks
/// differ; more is `<invalid>`.
pub fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / DAY, seconds / HOUR, seconds / MINUTE);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(minutes, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{minutes}m"),
        s if s < 8 * HOUR => two(hours, "h", minutes % 60, "m"),
        s if s < 2 * DAY => format!("{hours}h"),
        s if s < 8 * DAY => two(days, "d", hours % 24, "h"),
        s if s < 2 * YEAR => format!("{days}d"),
        s if s < 8 * YEAR => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

fn two(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_in_kubectl() {
        for (seconds, text) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 5 * MINUTE, "3h5m"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + 3 * HOUR, "2d3h"),
            (100 * DAY, "100d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (9 * YEAR, "9y"),
        ] {
            assert_eq!(human_duration(SignedDuration::from_secs(seconds)), text);
        }
    }
}
