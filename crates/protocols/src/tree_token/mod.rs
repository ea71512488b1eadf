//! tree-token-2019.
