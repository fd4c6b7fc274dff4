//! A page, used like a person uses it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::pipe::Pipe;
use crate::wait;

/// Longer than any action takes on a working machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A tab with a page.
#[derive(Debug)]
pub struct Page<'b> {
    pipe: &'b Pipe,
    session: String,
}

/// The preferred colour scheme of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Dark text on a light background.
    Light,
    /// Light text on a dark background.
    Dark,
}

impl<'b> Page<'b> {
    pub(super) fn new(pipe: &'b Pipe) -> Self {
        let target = pipe.call(
            None,
            "Target.createTarget",
            &json!({ "url": "about:blank" }),
        );
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = pipe.call(None, "Target.attachToTarget", &attach);

        let page = Self {
            pipe,
            session: session["sessionId"].as_str().unwrap_or_default().to_owned(),
        };

        for domain in ["Page", "Runtime", "Log"] {
            page.call(&format!("{domain}.enable"), &json!({}));
        }
        page
    }

    /// Navigates to another page and waits until it is loaded.
    ///
    /// # Panics
    ///
    /// If it does not load.
    pub fn go(&self, url: &str) {
        let gone = self.call("Page.navigate", &json!({ "url": url }));
        assert!(gone["errorText"].is_null(), "{url}: {gone}");
        self.until("document.readyState === 'complete'", "the page to load");
    }

    /// Evaluates a JavaScript expression and returns its value.
    ///
    /// # Panics
    ///
    /// If it throws.
    pub fn eval(&self, expression: &str) -> Value {
        let asked =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", &asked);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {}",
            answer["exceptionDetails"]
        );
        answer["result"]["value"].take()
    }

    /// The visible text of an element.
    ///
    /// # Panics
    ///
    /// If no element matches.
    pub fn text(&self, selector: &str) -> String {
        let text = self.eval(&format!("document.querySelector({selector:?}).innerText"));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true.
    ///
    /// # Panics
    ///
    /// If it does not become true; the message names `what`.
    pub fn until(&self, expression: &str, what: &str) {
        wait::until_true(PATIENCE, what, || self.eval(expression) == true);
    }

    /// Moves the pointer to the middle of an element.
    pub fn point(&self, selector: &str) {
        let [x, y] = self.middle(selector);
        self.call(
            "Input.dispatchMouseEvent",
            &json!({ "type": "mouseMoved", "x": x, "y": y }),
        );
    }

    /// Clicks in the middle of an element, as a mouse does: an element on top of it gets the click.
    pub fn click(&self, selector: &str) {
        let [x, y] = self.middle(selector);
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Scrolls an element into view and returns the position of its middle.
    fn middle(&self, selector: &str) -> [Value; 2] {
        let mut place = self.eval(&format!(
            "(() => {{ const e = document.querySelector({selector:?});
               e.scrollIntoView({{ block: 'center', behavior: 'instant' }});
               const r = e.getBoundingClientRect();
               return [r.x + r.width / 2, r.y + r.height / 2]; }})()"
        ));
        [place[0].take(), place[1].take()]
    }

    /// Types text into the focused element.
    pub fn write(&self, text: &str) {
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// Presses a key, given by its name (`Tab`, `Enter`) and its virtual key code.
    pub fn press(&self, key: &str, number: u32) {
        for kind in ["keyDown", "keyUp"] {
            let text = if key == "Enter" && kind == "keyDown" {
                "\r"
            } else {
                ""
            };

            let event = json!({
                "type": kind,
                "key": key,
                "code": key,
                "windowsVirtualKeyCode": number,
                "text": text,
            });

            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Sets the size of the page in CSS pixels, and the number of device pixels for each of them.
    pub fn resize(&self, width: u32, height: u32, scale: f64) {
        let size = json!({
            "width": width,
            "height": height,
            "deviceScaleFactor": scale,
            "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Sets the preferred colour scheme.
    pub fn prefer(&self, scheme: Scheme) {
        let value = if scheme == Scheme::Dark {
            "dark"
        } else {
            "light"
        };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);

        self.call(
            "Emulation.setEmulatedMedia",
            &json!({ "features": features }),
        );
    }

    /// Takes a screenshot of the visible part, as a PNG.
    ///
    /// # Panics
    ///
    /// If the browser does not return one.
    pub fn screenshot(&self) -> Vec<u8> {
        let shot = self.call("Page.captureScreenshot", &json!({ "format": "png" }));
        STANDARD
            .decode(shot["data"].as_str().unwrap_or_default())
            .expect("an image in base64")
    }

    /// The accessibility tree as a screen reader sees it: the role and the name of every node that
    /// has one.
    pub fn accessible(&self) -> Vec<(String, String)> {
        let tree = self.call("Accessibility.getFullAXTree", &json!({}));
        let nodes = tree["nodes"].as_array().cloned().unwrap_or_default();
        let told = nodes.iter().filter(|node| node["ignored"] != true);
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        told.map(|node| (text(&node["role"]), text(&node["name"])))
            .collect()
    }

    /// Errors that pages have caused so far: script errors, and actions that the browser blocked.
    pub fn complaints(&self) -> Vec<String> {
        self.pipe.complaints()
    }

    fn call(&self, method: &str, parameters: &Value) -> Value {
        self.pipe.call(Some(&self.session), method, parameters)
    }
}
