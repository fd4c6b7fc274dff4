//! If any well-known server takes a request target for the login, the limit on the login applies.
#![no_main]

#[path = "../../crates/subject/tests/reference/mod.rs"]
mod reference;

use std::borrow::Cow;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tollgate_rules::{Attribute, Attributes, Config, MissingKeyPolicy, Selector, Value};

const LOGIN: &str = "/auth/login";
const CONFIG: &str = "limits: [{name: login, match: {path: /auth/login}, key: [], \
                      algorithm: fixed_window, limit: 1, window: 1h}]";

static SELECTOR: LazyLock<Selector> = LazyLock::new(|| {
    let config = Config::parse(CONFIG, "login.yaml", &|_| None).expect("a valid configuration");
    Selector::new(&config)
});

struct Target<'t>(&'t str);

impl Attributes for Target<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        (attribute.name() == "path").then_some(Value::Text(Cow::Borrowed(self.0)))
    }
}

fuzz_target!(|bytes: &[u8]| {
    let target = String::from_utf8_lossy(bytes);
    // An error refuses the request, so it does not pass uncounted.
    let selected = SELECTOR.select(&Target(&target), None, MissingKeyPolicy::Error);
    if selected.is_ok_and(|demands| demands.is_empty()) {
        let readers = reference::readers_of(&target, LOGIN);
        assert!(readers.is_empty(), "{target:?} is not limited, but is the login for {readers:?}");
    }
});
