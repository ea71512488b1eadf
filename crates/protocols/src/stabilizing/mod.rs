//! stabilizing-2014.
