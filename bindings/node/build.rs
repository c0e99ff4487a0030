//! How an addon is linked.

fn main() {
    napi_build::setup();
}
