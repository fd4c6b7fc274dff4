//! Links against the symbols of Node.

fn main() {
    napi_build::setup();
}
