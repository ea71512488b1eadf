//! Switches that bring a published defect back, for checkers to fail and for teaching.

/// A set of published defects to run *as printed* instead of repaired. Which bit is which defect is
/// the protocols' business; a service never sets any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Defects(pub u64);

impl Defects {
    /// Everything repaired.
    pub const NONE: Defects = Defects(0);

    /// Whether `defect` is to run as printed.
    pub const fn has(self, defect: Defects) -> bool {
        self.0 & defect.0 != 0
    }
}
