//! Links the unwinder of `kgate` statically. Each library that the dynamic linker loads costs the
//! start of a small program a tenth of a millisecond, and rustc names this one, `libgcc_s`, by
//! itself. So another file of that name comes first: a script of the linker that names the static
//! one, which every compiler of C has.

use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("OS") != "linux" || target("ENV") != "gnu" {
        return;
    }
    let folder = env::var("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&folder).join("libgcc_s.so"), "INPUT ( -lgcc_eh )\n").expect("written");
    println!("cargo::rustc-link-arg-bin=kgate=-L{folder}");
}
