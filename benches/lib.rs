//! Benchmarks are in the bench targets of this package: `cargo bench -p kgate-benches`. See
//! `docs/internals/benchmarks.md`.
