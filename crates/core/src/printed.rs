//! Switches that bring a published defect back, for judges to fail and for teaching.

/// A set of published defects to run *as printed* instead of repaired. Which bit is which defect is the
/// protocols' business; a service never sets any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Printed(pub u64);

impl Printed {
    /// Everything repaired.
    pub const NONE: Printed = Printed(0);

    /// Whether `defect` is to run as printed.
    pub const fn has(self, defect: Printed) -> bool {
        self.0 & defect.0 != 0
    }
}
