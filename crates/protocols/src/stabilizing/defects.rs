//! The corrections.
use kgate_core::Printed;
/// C1.
pub const C1: Printed = Printed(1 << 49);
/// C3.
pub const C3: Printed = Printed(1 << 51);
/// C5.
pub const C5: Printed = Printed(1 << 53);
/// C6.
pub const C6: Printed = Printed(1 << 54);
/// C7.
pub const C7: Printed = Printed(1 << 55);
/// C8.
pub const C8: Printed = Printed(1 << 56);
/// C9.
pub const C9: Printed = Printed(1 << 57);
/// C10.
pub const C10: Printed = Printed(1 << 58);
/// C11.
pub const C11: Printed = Printed(1 << 59);
/// C14.
pub const C14: Printed = Printed(1 << 62);
