//! A batch.

use kimi_agent_bridge::{BridgeBatch, Naming, next_id};
use napi::Env;
use napi_derive::napi;

use crate::bridge::Bridge;
use crate::error::OrThrow;
use crate::runtime;
use crate::session::{Callbacks, options};

/// A batch. If it is garbage collected, it is cancelled in the background.
#[napi]
pub struct NativeBatch {
    batch: BridgeBatch,
}

#[napi]
impl NativeBatch {
    /// Starts a batch. The options are those of the batch and of its sessions.
    #[napi(catch_unwind)]
    pub fn open(
        env: &Env,
        bridge: &Bridge,
        options_json: String,
        callbacks: Callbacks,
        reports_progress: bool,
    ) -> napi::Result<NativeBatch> {
        let options = options(env, &options_json)?;
        let (mailbox, runtime) = (bridge.mailbox.clone(), runtime(env)?);
        let callbacks = callbacks.into();
        BridgeBatch::open(next_id(), mailbox, runtime, options, Naming::Camel, callbacks, reports_progress)
            .map(|batch| Self { batch })
            .or_throw(env)
    }

    /// Jobs name the batch by this number.
    #[napi(catch_unwind, getter)]
    pub fn key(&self) -> f64 {
        self.batch.key as f64
    }

    /// A ticket for the next result.
    #[napi(catch_unwind)]
    pub fn next(&self) -> f64 {
        self.batch.next() as f64
    }

    /// A ticket for the end of all jobs, which are cancelled.
    #[napi(catch_unwind)]
    pub fn cancel(&self) -> f64 {
        self.batch.cancel() as f64
    }

    /// Cancels the batch in the background.
    #[napi(catch_unwind)]
    pub fn abandon(&self) {
        self.batch.abandon();
    }
}
