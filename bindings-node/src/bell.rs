//! A bridge: the mailbox of a JavaScript environment, and the bell by which its thread is called.

use std::collections::VecDeque;
use std::sync::Arc;

use kimi_agent::Error;
use kimi_agent::bridge::{Delivery, LogLevel, Mailbox, install_log};
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Status, sys};
use napi_derive::napi;

use crate::turn::check_length;
use crate::{deliveries, parse, thrown};

/// Weak: an idle bridge does not keep the process alive.
type Bell = ThreadsafeFunction<(), (), (), Status, false, true>;

/// What a JavaScript environment shares with the core.
#[napi]
pub struct Bridge {
    pub(crate) mailbox: Arc<Mailbox>,
    bell: Arc<Bell>,
}

#[napi]
impl Bridge {
    /// `wake` is called on the environment's thread when there is something to drain.
    #[napi(constructor)]
    pub fn new(wake: Function<'_, (), ()>) -> napi::Result<Self> {
        let bell = Arc::new(wake.build_threadsafe_function().weak::<true>().build()?);
        let ring = Arc::clone(&bell);
        // An environment that is ending takes no calls any more, and nobody is left there to be told.
        let mailbox = Mailbox::new(move || {
            ring.call((), ThreadsafeFunctionCallMode::NonBlocking);
        });
        Ok(Self { mailbox, bell })
    }

    /// Everything that waits, as a JSON array.
    #[napi]
    pub fn drain(&self) -> String {
        let deliveries = self.mailbox.drain();
        let text = deliveries::to_json(&deliveries);
        if check_length("a delivery", &text).is_ok() {
            return text;
        }
        deliveries::to_json(&deliveries.into_iter().filter_map(|delivery| self.fitting(delivery)).collect())
    }

    /// A delivery that fits into a string: a failure instead of one that does not.
    fn fitting(&self, delivery: Delivery) -> Option<Delivery> {
        let alone = VecDeque::from([delivery]);
        let error = check_length("what the agent sent", &deliveries::to_json(&alone)).err();
        match (alone.into_iter().next()?, error) {
            (delivery, None) => Some(delivery),
            (Delivery::Done { ticket, .. }, Some(error)) => Some(Delivery::Done { ticket, outcome: Err(error) }),
            (Delivery::Job { id, .. }, Some(error)) => {
                self.mailbox.finish_job(id, Err(error.to_string()));
                None
            }
            _ => None,
        }
    }

    /// What came of a job: JSON, or the text of what went wrong.
    #[napi]
    pub fn job_done(&self, job_id: f64, value_json: Option<String>, error: Option<String>) -> napi::Result<()> {
        let outcome = match (error, value_json) {
            (Some(error), _) => Err(error),
            (None, Some(json)) => Ok(parse("answer", &json)?),
            (None, None) => Ok(serde_json::Value::Null),
        };
        self.mailbox.finish_job(job_id as u64, outcome);
        Ok(())
    }

    /// Keeps the process alive.
    #[napi(js_name = "ref")]
    pub fn keep_alive(&self, env: Env) -> napi::Result<()> {
        // SAFETY: the function is released only with its last owner, and this is its environment's thread.
        let status = unsafe { sys::napi_ref_threadsafe_function(env.raw(), self.bell.raw()) };
        accepted(status)
    }

    /// Does not keep the process alive any more.
    #[napi]
    pub fn unref(&self, env: Env) -> napi::Result<()> {
        // SAFETY: as above.
        let status = unsafe { sys::napi_unref_threadsafe_function(env.raw(), self.bell.raw()) };
        accepted(status)
    }

    /// Up to which level records for the log are delivered.
    #[napi]
    pub fn set_log_level(&self, level: Option<String>) -> napi::Result<()> {
        let level = match level.as_deref() {
            None => None,
            Some("error") => Some(LogLevel::Error),
            Some("warn") => Some(LogLevel::Warn),
            Some("info") => Some(LogLevel::Info),
            Some("debug") => Some(LogLevel::Debug),
            Some("trace") => Some(LogLevel::Trace),
            Some(other) => {
                return Err(thrown(&Error::InvalidOption {
                    option: "level".to_owned(),
                    reason: format!("{other:?} is no level"),
                }));
            }
        };
        install_log(level);
        Ok(())
    }

    /// Nobody drains it any more.
    #[napi]
    pub fn close(&self) {
        self.mailbox.close();
    }
}

fn accepted(status: sys::napi_status) -> napi::Result<()> {
    match Status::from(status) {
        Status::Ok => Ok(()),
        status => Err(napi::Error::from_status(status)),
    }
}
