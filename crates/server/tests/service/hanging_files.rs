//! A file system that does not respond, as a dead mount: the service decides, reports it, and ends
//! in time.

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::reverse_proxy;

use crate::harness::{Tollgate, write_config};

const LIMITS: &str =
    "limits: [{name: api, key: [user], algorithm: sliding_log, limit: 9, window: 1h}]";
const ANN: &str = r#"{"attributes": {"user": "ann"}}"#;
const REPORT: &str = "the file system does not respond";

/// A library for `LD_PRELOAD`: opening the configuration waits as long as the file `$HANGS` exists.
const HANGING_OPEN: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int open64(const char *path, int flags, unsigned mode) {
  const char *hangs = getenv("HANGS");
  while (hangs && strstr(path, "tollgate.yaml") && access(hangs, F_OK) == 0)
    usleep(1000);
  int (*open_file)(const char *, int, unsigned) = dlsym(RTLD_NEXT, "open64");
  return open_file(path, flags, mode);
}
"#;

/// The service, and the file that makes its configuration file hang.
fn start() -> (Tollgate, PathBuf) {
    // Its directory is removed with that of the service's own configuration.
    let directory = write_config(LIMITS).with_file_name("");
    let (source, library) = (directory.join("hang.c"), directory.join("hang.so"));
    std::fs::write(&source, HANGING_OPEN).expect("a writable directory");
    let compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .args(["-ldl"])
        .status();
    assert!(compiler.expect("there is a C compiler").success());

    let hangs = directory.join("hangs");
    let text = |path: &Path| path.display().to_string();
    let variables = [("LD_PRELOAD", text(&library)), ("HANGS", text(&hangs))];
    let service = Tollgate::with(
        LIMITS,
        &[],
        &variables
            .each_ref()
            .map(|(name, value)| (*name, value.as_str())),
    );
    (service, hangs)
}

#[test]
fn the_service_ends_in_time_while_its_file_hangs() {
    let (mut service, hangs) = start();
    std::fs::write(&hangs, "").expect("a writable directory");
    service.wait_for_log(REPORT);

    assert_eq!(service.check(ANN).status, 200);
    // Does not wait for the file system again.
    let reload = reverse_proxy::send(service.admin, "POST", "/admin/reload", &[], b"");
    assert_eq!(reload.status, 422);
    assert!(reload.text().contains(REPORT), "{}", reload.text());
    service.signal("HUP");
    service.signal("TERM");
    assert!(service.wait_for_exit().success());
    assert!(
        !service.log().contains("drain timeout"),
        "{}",
        service.log()
    );
    std::fs::remove_dir_all(hangs.with_file_name("")).expect("it is ours");
}

#[test]
fn a_file_that_responds_again_is_reloaded() {
    let (service, hangs) = start();
    std::fs::write(&hangs, "").expect("a writable directory");
    service.wait_for_log(REPORT);
    std::fs::remove_dir_all(hangs.with_file_name("")).expect("it is ours");
    service.wait_for_log("configuration reloaded");
    assert_eq!(service.check(ANN).status, 200);
}
