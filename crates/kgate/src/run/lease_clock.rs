//! The clock of permits and deadlines: the same in every process of one machine.

pub(crate) use kgate_api::LeaseInstant;
