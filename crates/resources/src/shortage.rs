//! A resource of which a pod needs more than is free, in upstream's words.

use hostlet_base::reasons;
use hostlet_pod::Rejection;

/// A resource of which too little is free. Amounts are in the units of [`in_units`](hostlet_base::resources::in_units).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The name of the resource.
    pub resource: String,
    /// How much the pod needs.
    pub requested: i64,
    /// How much is allocated to others.
    pub used: i64,
    /// How much there is.
    pub capacity: i64,
}

impl Shortage {
    /// How much must be freed.
    pub fn missing(&self) -> i64 {
        self.requested.saturating_sub(self.capacity.saturating_sub(self.used))
    }

    /// Whether it remains even if all others terminate.
    pub fn is_permanent(&self) -> bool {
        self.requested > self.capacity
    }

    /// The rejection that reports it.
    pub fn rejection(&self) -> Rejection {
        let Self { resource, requested, used, capacity } = self;
        let message = format!(
            "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
        );
        Rejection::new(format!("{}{resource}", reasons::OUT_OF), message)
    }
}
