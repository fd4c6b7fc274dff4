//! Loads a configuration and selects the limits that apply to a request.
//!
//! Run it with `cargo run -p tollgate-rules --example select_limits`.

use std::borrow::Cow;
use std::error::Error;

use tollgate_rules::{Attribute, Attributes, Config, MissingKeyPolicy, Selector, Value};

const CONFIG: &str = r#"
limits:
  - name: api
    key: [client_ip]
    algorithm: sliding_window
    limit: 100
    window: 1m

  - name: login
    match: { method: POST, path: /auth/login }
    key: [client_ip]
    algorithm: sliding_log
    limit: 20
    window: 15m

  - name: reports
    match: { path: "/reports/**" }
    key: [tenant]
    algorithm: token_bucket
    capacity: 5
    refill_rate: 6/minute
"#;

/// A request, as a list of attributes and their values.
struct Request(Vec<(&'static str, &'static str)>);

impl Attributes for Request {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let mut attributes = self.0.iter();
        let (_, value) = attributes.find(|(name, _)| *name == attribute.name())?;
        Some(Value::Text(Cow::Borrowed(value)))
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // The closure looks up environment variables; this configuration uses none.
    let config = Config::parse(CONFIG, "tollgate.yaml", &|_| None)?;
    let selector = Selector::new(&config);

    let request = Request(vec![
        ("client_ip", "203.0.113.7"),
        ("method", "POST"),
        ("path", "/auth//login?next=/"),
    ]);
    let selection = selector.select(&request, None, MissingKeyPolicy::Error)?;

    let mut names = Vec::new();
    for selected in &selection {
        let name = selected.limit.name().as_str();
        println!("limit {name}, cost {}:", selected.cost);
        for part in selector
            .display_key(selected.limit.position(), &selected.key)
            .into_iter()
            .flatten()
        {
            println!("  {} = {}", part.attribute, part.value);
        }
        names.push(name);
    }
    assert_eq!(names, ["api", "login"]);

    Ok(())
}
