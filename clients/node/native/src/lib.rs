//! The native module of the Node package: [`Embedded`] with the types of Node. Everything that can
//! be written in TypeScript is.

mod checker;
mod numbers;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use napi::bindgen_prelude::{Error, Object, Result};
use napi::{Env, Status};
use napi_derive::napi;
use tollgate_embedded::{Embedded, LimitId};

pub use self::checker::Checker;
use self::checker::SharedEngine;

/// A limiter in the process of Node.
#[napi]
pub struct NativeEngine {
    /// None after [`close`](Self::close).
    embedded: SharedEngine,
}

#[napi]
impl NativeEngine {
    /// Opens a configuration, the text of a file; `file` is its name in errors. `mode` is
    /// `"connect"`, which waits for the store on a thread of its own and fails without it, `"lazy"`,
    /// or `"manual-clock"`: in memory, with a clock that only `advance` moves.
    #[napi(ts_return_type = "Promise<NativeEngine>")]
    pub fn open(env: &Env, text: String, file: String, mode: String) -> Result<Object<'_>> {
        let (deferred, promise) = env.create_deferred()?;
        let open = move || {
            let opened = match &*mode {
                "lazy" => Embedded::open_lazy(&text, &file),
                "manual-clock" => Embedded::open_for_tests(&text, &file),
                _ => Embedded::open(&text, &file),
            };
            match opened {
                Ok(embedded) => deferred.resolve(move |_| Ok(Self::new(embedded))),
                Err(error) => deferred.reject(invalid(error)),
            }
        };

        let thread = thread::Builder::new().name("tollgate-open".to_owned());
        thread.spawn(open).map_err(invalid)?;
        Ok(promise)
    }

    fn new(embedded: Embedded) -> Self {
        Self {
            embedded: Rc::new(RefCell::new(Some(Arc::new(embedded)))),
        }
    }

    /// What the operator should know about the configuration and its store.
    #[napi]
    pub fn warnings(&self) -> Result<Vec<String>> {
        Ok(self.embedded()?.warnings())
    }

    /// Asks the store. The promise has the reason why it does not answer, or null.
    #[napi(ts_return_type = "Promise<string | null>")]
    pub fn store_error<'env>(&self, env: &'env Env) -> Result<Object<'env>> {
        let embedded = self.embedded()?;
        let (deferred, promise) = env.create_deferred()?;
        embedded.store_error(move |reason| deferred.resolve(move |_| Ok(reason)));
        Ok(promise)
    }

    /// Looks up a limit for `tryCheck`: a name, or the JSON text of a limit.
    #[napi]
    pub fn limit(&self, limit: String) -> Result<u32> {
        let LimitId(id) = self.embedded()?.limit(&limit).map_err(invalid)?;
        Ok(id)
    }

    /// A function that decides without waiting: `(limit, key, cost, limit, key, cost, ..) => code`.
    /// The limits pass together or not at all. A negative cost is that of the limit. Its property
    /// `numbers` has the details of the last decision. The code says that the request is allowed,
    /// denied, or must be sent as an operation.
    #[napi(ts_return_type = "Function")]
    pub fn checker(&self) -> Checker {
        Checker(self.embedded.clone())
    }

    /// Carries out the body of a batch. The promise has the body of the response; an error of the
    /// whole batch is a problem document, too.
    #[napi(ts_return_type = "Promise<string>")]
    pub fn batch<'env>(&self, env: &'env Env, body: String) -> Result<Object<'env>> {
        let embedded = self.embedded()?;
        let (deferred, promise) = env.create_deferred()?;
        embedded.batch(body, move |_, text| deferred.resolve(move |_| Ok(text)));
        Ok(promise)
    }

    /// Moves the manual clock.
    #[napi]
    pub fn advance(&self, millis: f64) -> Result<()> {
        let length = Duration::try_from_secs_f64(millis / 1_000.0);
        let length = length.map_err(|error| invalid(format!("cannot advance: {error}")))?;
        self.embedded()?.advance(length).map_err(invalid)
    }

    /// Returns leases and closes connections. Further calls fail.
    #[napi(ts_return_type = "Promise<void>")]
    pub fn close<'env>(&self, env: &'env Env) -> Result<Object<'env>> {
        let (deferred, promise) = env.create_deferred()?;

        // Leases that are not returned end by themselves, so a failure is no error.
        match self.embedded.take() {
            None => deferred.resolve(closed(None)),
            Some(embedded) => {
                let kept = embedded.clone();
                embedded.return_leases(move |_| deferred.resolve(closed(Some(kept))));
            }
        }
        Ok(promise)
    }

    fn embedded(&self) -> Result<Arc<Embedded>> {
        let closed_error = || invalid("the limiter is closed");
        self.embedded.borrow().clone().ok_or_else(closed_error)
    }
}

/// Ends a limiter on Node's thread: its runtime must not end on one of its own.
fn closed(embedded: Option<Arc<Embedded>>) -> impl FnOnce(Env) -> Result<()> + Send {
    move |_| {
        drop(embedded);
        Ok(())
    }
}

fn invalid(reason: impl ToString) -> Error {
    Error::new(Status::InvalidArg, reason.to_string())
}
