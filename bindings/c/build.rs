//! Gives the shared library the name by which programs find it at run time. A release that changes an
//! existing function raises the number.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // For the tests, which compile the examples.
    println!("cargo:rustc-env=HOST={}", std::env::var("HOST").unwrap_or_default());
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libesker.so.0");
    }
}
