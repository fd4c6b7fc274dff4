//! The configuration: every text is a valid configuration or an error with its position, and a
//! valid one can be used.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_rules::{Attribute, Attributes, Config, MissingKeyPolicy, Selector, Value};

/// A request that has every attribute.
struct Everything;

impl Attributes for Everything {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        Some(Value::Text(match attribute.name() {
            "client_ip" => "203.0.113.7".into(),
            "path" => "/auth/login".into(),
            _ => "x".into(),
        }))
    }
}

fuzz_target!(|text: &str| {
    let variable = |name: &str| (name == "SECRET").then(|| "battery-staple-0123456789".to_owned());
    match Config::parse(text, "fuzz.yaml", &variable) {
        Ok(config) => {
            let selector = Selector::new(&config);
            // The selection may be an error, such as a value that is not an address.
            let _selected = selector.select(&Everything, None, MissingKeyPolicy::Error);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
