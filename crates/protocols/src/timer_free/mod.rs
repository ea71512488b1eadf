//! timer-free-2009.
