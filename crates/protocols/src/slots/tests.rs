//! `slots` by hand-driven networks: costs, order, views, the tree, JOIN, junk, and a world in which anything may happen.

mod random;
mod world;
