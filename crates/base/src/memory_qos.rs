//! Memory protection and throttling by requests and limits, on cgroup v2 (KEP-2570). Pure.

use super::QosClass;

/// How requests and limits of memory become protection and throttling.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryQos {
    /// Whether requests are protected: those of guaranteed pods always, those of burstable pods as far as possible.
    pub has_tiered_reservation: bool,
    /// Where between request and limit a container is throttled, above 0 and at most 1; `None` for nowhere.
    pub throttling_factor: Option<f64>,
}

/// Memory that the kernel does not reclaim, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryProtection {
    /// Never (`memory.min`).
    pub min: i64,
    /// Only if nothing unprotected is left (`memory.low`).
    pub low: i64,
}

impl MemoryQos {
    /// The protection of a container or pod of this class with this request in bytes.
    pub fn protection(&self, qos: QosClass, request: i64) -> MemoryProtection {
        match qos {
            _ if !self.has_tiered_reservation => MemoryProtection::default(),
            QosClass::Guaranteed => MemoryProtection { min: request, low: 0 },
            QosClass::Burstable => MemoryProtection { min: 0, low: request },
            QosClass::BestEffort => MemoryProtection::default(),
        }
    }

    /// Above how many bytes a cgroup with this request and limit is throttled (`memory.high`), a whole number of pages; `None` if
    /// it is not.
    pub fn throttled_above(&self, request: i64, limit: i64) -> Option<i64> {
        let page = i64::try_from(procfs::page_size()).ok().filter(|page| *page > 0)?;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "upstream's arithmetic"
        )]
        let above =
            (request as f64 + (limit as f64 - request as f64) * self.throttling_factor?).floor() as i64;
        Some(above / page * page).filter(|above| *above > request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_decides_how_a_request_is_protected() {
        let tiered = MemoryQos { has_tiered_reservation: true, throttling_factor: None };
        let of = |qos| tiered.protection(qos, 4096);
        assert_eq!(of(QosClass::Guaranteed), MemoryProtection { min: 4096, low: 0 });
        assert_eq!(of(QosClass::Burstable), MemoryProtection { min: 0, low: 4096 });
        assert_eq!(of(QosClass::BestEffort), MemoryProtection::default());
        assert_eq!(MemoryQos::default().protection(QosClass::Guaranteed, 4096), MemoryProtection::default());
    }

    #[test]
    fn throttling_starts_between_request_and_limit() {
        let page = i64::try_from(procfs::page_size()).unwrap();
        let qos = MemoryQos { has_tiered_reservation: false, throttling_factor: Some(0.9) };
        assert_eq!(qos.throttled_above(0, 100 * page), Some(90 * page));
        assert_eq!(qos.throttled_above(50 * page, 101 * page), Some(95 * page), "rounded down");
        assert_eq!(qos.throttled_above(page, page), None);
        assert_eq!(qos.throttled_above(page + 1, page + 2), None, "not below the request");
        assert_eq!(MemoryQos::default().throttled_above(0, 100 * page), None);
    }
}
