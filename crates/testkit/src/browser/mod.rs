//! A real Chromium for tests of web pages, driven over the `DevTools` protocol.
//!
//! - `pipe`: commands and replies as JSON over two pipes, so that no port and no library is needed.
//! - `page`: the actions of a user: open a page, read, click, type; and screenshots.
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
//! This module owns the browser's process and protocol. It does not know the content of pages.

mod page;
mod pipe;

use std::process::Command;

use serde_json::json;

pub use self::page::{Page, Scheme};
use self::pipe::Pipe;
use crate::processes::{Directory, Process, find_program};

/// Chromium uses file descriptors 3 and 4, which only a shell can set up without unsafe code.
const WITH_PIPES: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;

/// Options for quiet and reproducible runs. The sandbox is disabled, because it does not work in
/// containers and as root; tests only open their own pages.
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

/// A headless browser. It ends when it is dropped.
#[derive(Debug)]
pub struct Browser {
    pipe: Pipe,
    _process: Process,
    _directory: Directory,
}

impl Browser {
    /// Starts the browser.
    ///
    /// # Panics
    ///
    /// If the program is not found, or does not respond.
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

    /// The browser's product name and version.
    pub fn version(&self) -> String {
        let version = self.pipe.call(None, "Browser.getVersion", &json!({}));
        version["product"].as_str().unwrap_or_default().to_owned()
    }

    /// Opens a page in a new tab and waits until it is loaded.
    pub fn open(&self, url: &str) -> Page<'_> {
        let page = Page::new(&self.pipe);
        page.go(url);
        page
    }
}
