//! What a rotation does with the files of a log. Pure. The rules are upstream's (its container log manager).

use jiff::civil::DateTime;

use hostlet_observe::log::{RotatedForm, RotatedLog, RotationStamp};

/// The work of one rotation, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RotationPlan {
    /// Files to remove, oldest first: remains of interrupted rotations, and those that are too many.
    pub(super) remove: Vec<RotatedLog>,
    /// Files to compress. The newest rotated file is not compressed before the next rotation, so that the runtime and log collectors
    /// can finish it.
    pub(super) compress: Vec<RotatedLog>,
    /// The new name of the log.
    pub(super) rotated: RotatedLog,
}

/// Plans the rotation of the log called `log`, in whose directory are the files `names`. `max_files` counts the new log and the one
/// rotated now.
pub(super) fn plan(log: &str, names: &[String], max_files: usize, now: DateTime) -> RotationPlan {
    let mut all: Vec<RotatedLog> = names.iter().filter_map(|name| RotatedLog::parse(name, log)).collect();
    all.sort_by_key(|rotated| rotated.stamp);
    // A clock that was set back, or a second rotation within a second, must neither replace a file nor change their order.
    let newest = all.last().map(|newest| newest.stamp);
    let stamp = newest.map_or(RotationStamp::at(now), |newest| newest.next().max(RotationStamp::at(now)));
    let is_compressed = |stamp| all.contains(&RotatedLog { stamp, form: RotatedForm::Compressed });
    let is_in_use = |rotated: &RotatedLog| match rotated.form {
        RotatedForm::Compressed => true,
        RotatedForm::Plain => !is_compressed(rotated.stamp),
        RotatedForm::Unfinished => false,
    };
    let (in_use, mut remove): (Vec<RotatedLog>, Vec<RotatedLog>) = all.iter().copied().partition(is_in_use);
    let excess = in_use.len().saturating_sub(max_files.saturating_sub(2));
    remove.extend(&in_use[..excess]);
    let compress = in_use[excess..].iter().copied().filter(|rotated| rotated.form == RotatedForm::Plain);
    RotationPlan {
        remove,
        compress: compress.collect(),
        rotated: RotatedLog { stamp, form: RotatedForm::Plain },
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use proptest::prelude::*;

    use super::*;

    fn planned(names: &[&str], max_files: usize) -> (Vec<String>, Vec<String>, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let plan = plan("0.log", &names, max_files, date(2026, 1, 5).at(0, 0, 0, 0));
        let names = |files: &[RotatedLog]| files.iter().map(|file| file.name("0.log")).collect();
        (names(&plan.remove), names(&plan.compress), plan.rotated.name("0.log"))
    }

    #[test]
    fn the_oldest_are_removed_and_the_others_compressed() {
        let names = [
            "0.log",
            "0.log.20260104-000000",
            "0.log.20260102-000000.gz",
            "0.log.20260101-000000.gz",
            "0.log.20260103-000000.gz",
            "1.log.20260101-000000",
            "0.log.notes",
        ];
        let (remove, compress, rotated) = planned(&names, 5);
        assert_eq!(remove, ["0.log.20260101-000000.gz"]);
        assert_eq!(compress, ["0.log.20260104-000000"]);
        assert_eq!(rotated, "0.log.20260105-000000");
        let (remove, compress, _) = planned(&names, 2);
        assert_eq!((remove.len(), compress.len()), (4, 0));
        assert_eq!(planned(&["0.log"], 5), (Vec::new(), Vec::new(), "0.log.20260105-000000".to_owned()));
    }

    #[test]
    fn remains_of_interrupted_rotations_are_removed() {
        let names = [
            "0.log",
            "0.log.20260101-000000.tmp",
            "0.log.20260101-000000",
            "0.log.20260102-000000",
            "0.log.20260102-000000.gz",
        ];
        let (remove, compress, _) = planned(&names, 5);
        assert_eq!(remove, ["0.log.20260101-000000.tmp", "0.log.20260102-000000"]);
        assert_eq!(compress, ["0.log.20260101-000000"]);
    }

    #[test]
    fn the_new_name_is_after_all_others() {
        assert_eq!(planned(&["0.log.20260105-000000"], 5).2, "0.log.20260105-000001");
        assert_eq!(planned(&["0.log.20260105-000009.tmp"], 5).2, "0.log.20260105-000010");
    }

    proptest! {
        /// What remains never exceeds the limit, and nothing newer is removed in place of something older.
        #[test]
        fn the_limit_is_kept(
            files in proptest::collection::vec((0u8..20, 0usize..3), 0..12), max_files in 2usize..6,
        ) {
            let suffix = ["", ".gz", ".tmp"];
            let names = files.iter().map(|(second, form)| format!("0.log.20260101-0000{second:02}{}", suffix[*form]));
            let names: Vec<String> = names.collect();
            let plan = plan("0.log", &names, max_files, date(2026, 1, 5).at(0, 0, 0, 0));
            let all = names.iter().filter_map(|name| RotatedLog::parse(name, "0.log"));
            let kept: Vec<RotatedLog> = all.filter(|file| !plan.remove.contains(file)).collect();
            let mut stamps: Vec<RotationStamp> = kept.iter().map(|file| file.stamp).collect();
            stamps.sort();
            stamps.dedup();
            prop_assert!(stamps.len() + 2 <= max_files);
            prop_assert!(kept.iter().all(|file| file.form != RotatedForm::Unfinished));
            for file in &kept {
                prop_assert_eq!(plan.compress.contains(file), file.form == RotatedForm::Plain);
            }
            let readable = |file: &&RotatedLog| file.form != RotatedForm::Unfinished && !stamps.contains(&file.stamp);
            if let (Some(newest), Some(oldest)) =
                (plan.remove.iter().filter(readable).map(|file| file.stamp).max(), stamps.first())
            {
                prop_assert!(newest < *oldest);
            }
        }
    }
}
