//! The bridge: the mailbox of a JavaScript environment, and the function that wakes its thread.

use std::sync::{Arc, PoisonError, RwLock};

use kimi_agent::Error;
use kimi_agent_bridge::{LogLevel, Mailbox, Naming, install_log, set_log_level};
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Status};
use napi_derive::napi;

use crate::delivery::Delivery;
use crate::error::OrThrow;
use crate::parse;

type Wake = ThreadsafeFunction<(), (), (), Status, false>;

/// The channel between a JavaScript environment and the core. Its `wake` is the addon's only call into JavaScript.
#[napi]
pub struct Bridge {
    pub(crate) mailbox: Arc<Mailbox>,
    /// Under a lock only because napi changes it to keep the process alive.
    wake: Arc<RwLock<Wake>>,
}

#[napi]
impl Bridge {
    /// `wake` is called on the environment's thread when there is something to drain, once for any number of deliveries.
    #[napi(catch_unwind, constructor)]
    pub fn new(env: &Env, wake: Function<'_, (), ()>) -> napi::Result<Self> {
        install_log(Naming::Camel);
        let mut wake: Wake = wake.build_threadsafe_function().build()?;
        // An idle bridge does not keep the process alive.
        set_keeps_alive(&mut wake, env, false)?;
        let wake = Arc::new(RwLock::new(wake));
        let ring = Arc::clone(&wake);
        // An environment that is ending accepts no calls, and needs none.
        let mailbox = Mailbox::new(move || {
            let wake = ring.read().unwrap_or_else(PoisonError::into_inner);
            wake.call((), ThreadsafeFunctionCallMode::NonBlocking);
        });
        Ok(Self { mailbox, wake })
    }

    /// Takes all deliveries.
    #[napi(catch_unwind)]
    pub fn drain(&self) -> Vec<Delivery> {
        self.mailbox.drain().into_iter().filter_map(|delivery| Delivery::new(delivery, &self.mailbox)).collect()
    }

    /// A handler returned. A job that was withdrawn is ignored.
    #[napi(catch_unwind)]
    pub fn job_done(&self, env: &Env, job_id: f64, answer_json: String) -> napi::Result<()> {
        let answer = parse(env, "answer", &answer_json)?;
        self.mailbox.finish_job(job_id as u64, Ok(answer));
        Ok(())
    }

    /// A handler failed, with an error of this kind if the name of its class says something. A job that was withdrawn is ignored.
    #[napi(catch_unwind)]
    pub fn job_failed(&self, job_id: f64, reason: String, kind: Option<String>) {
        self.mailbox.fail_job(job_id as u64, reason, kind);
    }

    /// Reports the progress of a tool. A job that was withdrawn is ignored.
    #[napi(catch_unwind)]
    pub fn job_progress(&self, job_id: f64, fraction: Option<f64>, message: Option<String>) {
        self.mailbox.report_progress(job_id as u64, fraction, message.as_deref());
    }

    /// The answer of a handler cannot be sent. A job that was withdrawn is ignored.
    #[napi(catch_unwind)]
    pub fn refuse_answer(&self, job_id: f64, reason: String) {
        self.mailbox.refuse_answer(job_id as u64, reason);
    }

    /// Sets whether the bridge keeps the process alive.
    #[napi(catch_unwind)]
    pub fn set_keeps_alive(&self, env: &Env, keeps_alive: bool) -> napi::Result<()> {
        set_keeps_alive(&mut self.wake.write().unwrap_or_else(PoisonError::into_inner), env, keeps_alive)
    }

    /// Delivers log records up to this level; null for none. Default: `warn`.
    #[napi(catch_unwind)]
    pub fn set_log_level(
        &self,
        env: &Env,
        #[napi(ts_arg_type = "'error' | 'warn' | 'info' | 'debug' | 'trace' | null")] level: Option<String>,
    ) -> napi::Result<()> {
        let level = match level.as_deref() {
            None => None,
            Some("error") => Some(LogLevel::Error),
            Some("warn") => Some(LogLevel::Warn),
            Some("info") => Some(LogLevel::Info),
            Some("debug") => Some(LogLevel::Debug),
            Some("trace") => Some(LogLevel::Trace),
            Some(other) => {
                let reason = format!("{other:?} is not a level");
                return Err(Error::InvalidOption { option: "level".to_owned(), reason }).or_throw(env);
            }
        };
        set_log_level(level);
        Ok(())
    }
}

#[expect(deprecated, reason = "napi's replacement, a clone for each time, costs a handle of the event loop")]
fn set_keeps_alive(wake: &mut Wake, env: &Env, keeps_alive: bool) -> napi::Result<()> {
    if keeps_alive { wake.refer(env) } else { wake.unref(env) }
}
