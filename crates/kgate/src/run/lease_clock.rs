//! The one clock by which a permit is alive and dies: the same in every process of one machine.

pub(crate) use kgate_api::LeaseInstant;
