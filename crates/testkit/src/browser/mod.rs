//! A real Chromium for tests of pages, driven by its own protocol.
//!
//! - `pipe`: commands and answers as JSON over two pipes; no port, no library, nothing else to
//!   install.
//! - `page`: what a person does with a page: open it, look, click, type; and pictures of it.
//!
//! ```no_run
//! use testkit::browser::Browser;
//!
//! let browser = Browser::start();
//! let page = browser.open("http://127.0.0.1:9090/");
//! page.until("document.title === 'Tollgate'", "the title");
//! std::fs::write("page.png", page.screenshot()).expect("a writable directory");
//! assert_eq!(page.complaints(), [""; 0]);
//! ```
//!
//! This module owns the browser's process and its words. It must not know what is on a page.

mod page;
mod pipe;

use std::process::Command;

use serde_json::json;

pub use self::page::{Page, Scheme};
use self::pipe::Pipe;
use crate::processes::{Directory, Process, find_program};

/// Chromium speaks on descriptors that only a shell can set up without unsafe code.
const WITH_PIPES: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;

/// What makes it quiet and the same everywhere. Inside a container, and as root, it cannot fence
/// itself off; the pages of tests are our own.
const OPTIONS: [&str; 13] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
];

/// A browser without a window. It ends when it is dropped.
#[derive(Debug)]
pub struct Browser {
    pipe: Pipe,
    _process: Process,
    _directory: Directory,
}

impl Browser {
    /// Starts it.
    ///
    /// # Panics
    ///
    /// When its program is missing, or it does not answer.
    pub fn start() -> Self {
        let directory = Directory::create();
        let mut command = Command::new("sh");
        command
            .args(["-c", WITH_PIPES])
            .arg(find_program("TOLLGATE_CHROMIUM", "chromium"))
            .args(OPTIONS);
        command
            .arg(format!("--user-data-dir={}", directory.path().display()))
            .arg("about:blank");
        let (process, input, output) = Process::spawn_with_pipes(&mut command, directory.path());
        let pipe = Pipe::new(input, output);
        pipe.call(None, "Browser.getVersion", &json!({}));
        Self {
            pipe,
            _process: process,
            _directory: directory,
        }
    }

    /// What it calls itself.
    pub fn version(&self) -> String {
        let version = self.pipe.call(None, "Browser.getVersion", &json!({}));
        version["product"].as_str().unwrap_or_default().to_owned()
    }

    /// A page in a tab of its own, opened and loaded.
    pub fn open(&self, url: &str) -> Page<'_> {
        let page = Page::new(&self.pipe);
        page.go(url);
        page
    }
}
