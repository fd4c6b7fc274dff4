//! A page as a person has it before them.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::pipe::Pipe;
use crate::wait;

/// Longer than anything on a page takes on a machine that is not stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// A tab with a page in it.
#[derive(Debug)]
pub struct Page<'b> {
    pipe: &'b Pipe,
    session: String,
}

/// Which colours the person prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Dark on light.
    Light,
    /// Light on dark.
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

    /// Goes to another page and waits until it is loaded.
    ///
    /// # Panics
    ///
    /// When it does not load.
    pub fn go(&self, url: &str) {
        let gone = self.call("Page.navigate", &json!({ "url": url }));
        assert!(gone["errorText"].is_null(), "{url}: {gone}");
        self.until("document.readyState === 'complete'", "the page to load");
    }

    /// What an expression of JavaScript gives.
    ///
    /// # Panics
    ///
    /// When it throws.
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

    /// The text that an element shows.
    ///
    /// # Panics
    ///
    /// When there is no such element.
    pub fn text(&self, selector: &str) -> String {
        let text = self.eval(&format!("document.querySelector({selector:?}).innerText"));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true.
    ///
    /// # Panics
    ///
    /// When it does not become true, saying that it waited for `what`.
    pub fn until(&self, expression: &str, what: &str) {
        wait::until_true(PATIENCE, what, || self.eval(expression) == true);
    }

    /// Moves the pointer over the middle of an element.
    pub fn point(&self, selector: &str) {
        let [x, y] = self.middle(selector);
        self.call(
            "Input.dispatchMouseEvent",
            &json!({ "type": "mouseMoved", "x": x, "y": y }),
        );
    }

    /// Clicks into the middle of an element, as a mouse does: whatever lies over it gets the click.
    pub fn click(&self, selector: &str) {
        let [x, y] = self.middle(selector);
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Where the middle of an element is, once it has come into view.
    fn middle(&self, selector: &str) -> [Value; 2] {
        let mut place = self.eval(&format!(
            "(() => {{ const e = document.querySelector({selector:?}); e.scrollIntoView({{ block: 'center', behavior: 'instant' }});
               const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})()"
        ));
        [place[0].take(), place[1].take()]
    }

    /// Writes into whatever has the focus.
    pub fn write(&self, text: &str) {
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// Presses a key, by its name (`Tab`, `Enter`) and its number.
    pub fn press(&self, key: &str, number: u32) {
        for kind in ["keyDown", "keyUp"] {
            let text = if key == "Enter" && kind == "keyDown" {
                "\r"
            } else {
                ""
            };
            let event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": number, "text": text });
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Makes it so wide and so high, in pixels of the page, with so many pixels of the picture for
    /// each.
    pub fn resize(&self, width: u32, height: u32, scale: f64) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Has the person prefer these colours.
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

    /// What can be seen, as a PNG.
    ///
    /// # Panics
    ///
    /// When the browser gives none.
    pub fn screenshot(&self) -> Vec<u8> {
        let shot = self.call("Page.captureScreenshot", &json!({ "format": "png" }));
        STANDARD
            .decode(shot["data"].as_str().unwrap_or_default())
            .expect("a picture in base64")
    }

    /// What a screen reader has to go by: the role and the name of everything that has one.
    pub fn accessible(&self) -> Vec<(String, String)> {
        let tree = self.call("Accessibility.getFullAXTree", &json!({}));
        let nodes = tree["nodes"].as_array().cloned().unwrap_or_default();
        let told = nodes.iter().filter(|node| node["ignored"] != true);
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        told.map(|node| (text(&node["role"]), text(&node["name"])))
            .collect()
    }

    /// What pages have complained about so far: errors of scripts, and what the browser refused to
    /// do for them.
    pub fn complaints(&self) -> Vec<String> {
        self.pipe.complaints()
    }

    fn call(&self, method: &str, parameters: &Value) -> Value {
        self.pipe.call(Some(&self.session), method, parameters)
    }
}
