//! The mutex by hand: single messages in, single effects out.
