//! The context of a tool call: its ID, its cancellation and its progress.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, watch};

/// The context of one call of a tool: its ID, whether its result is still needed, and a way to report progress.
/// [`ExternalTool::with_context`](crate::ExternalTool::with_context) and
/// [`ExternalTool::typed_with_context`](crate::ExternalTool::typed_with_context) pass it to the handler. The default is a
/// context without an agent, for tests of a handler.
///
/// # Examples
/// ```
/// use kimi_agent::{ExternalTool, ToolContext};
/// let schema = serde_json::json!({"type": "object"});
/// let tool = ExternalTool::with_context("index", "Indexes the files", schema, |_, context: ToolContext| async move {
///     for page in 0..10 {
///         context.progress(Some(f64::from(page) / 10.0), Some("reading"));
///     }
///     Ok("indexed")
/// });
/// assert_eq!(tool.name(), "index");
/// ```
#[derive(Clone, Default)]
pub struct ToolContext {
    call_id: String,
    progress: Option<ProgressSender>,
    end: Arc<CallEnd>,
}

/// The last report of a call. A newer report replaces a report that is not sent yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Report {
    pub(crate) fraction: Option<f64>,
    pub(crate) message: Option<String>,
}

pub(crate) type ProgressSender = watch::Sender<Report>;

/// Whether a call has ended.
#[derive(Default)]
struct CallEnd {
    has_ended: AtomicBool,
    ended: Notify,
}

/// Ends the call when it is dropped.
pub(crate) struct RunningCall(Arc<CallEnd>);

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Release);
        self.0.ended.notify_waiters();
    }
}

impl ToolContext {
    /// Makes the context of a call. `progress`: where its reports go, if its agent can get any.
    pub(crate) fn new(call_id: String, progress: Option<ProgressSender>) -> (Self, RunningCall) {
        let end = Arc::<CallEnd>::default();
        (Self { call_id, progress, end: Arc::clone(&end) }, RunningCall(end))
    }

    /// Returns the ID of the call, as its `ToolCallRequest` has it.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::ToolContext;
    /// assert_eq!(ToolContext::default().call_id(), "");
    /// ```
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// Reports how far the call is: a fraction from 0 to 1, a message for people, or both. Returns immediately.
    ///
    /// Agents that speak ACP get the report as MCP progress if they ask for it. Over Wire nothing is sent, because this
    /// protocol has no progress of tools. A fraction outside of 0 to 1 is clamped, and NaN counts as `None`. Without a fraction,
    /// the last one stays. A newer report replaces one that is not sent yet; the last report is sent before the result.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::ToolContext;
    /// let context = ToolContext::default();
    /// context.progress(Some(0.5), Some("half of the files"));
    /// context.progress(None, Some("writing the index"));
    /// ```
    pub fn progress(&self, fraction: Option<f64>, message: Option<&str>) {
        let Some(progress) = &self.progress else { return };
        let fraction = fraction.filter(|fraction| !fraction.is_nan()).map(|fraction| fraction.clamp(0.0, 1.0));
        progress.send_modify(|report| {
            report.fraction = fraction.or(report.fraction);
            report.message = message.map(str::to_owned);
        });
    }

    /// Returns whether the result is not needed any more: the call was cancelled, its time is over, or it has ended. The future
    /// of the handler is dropped then; threads that it has started can ask.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::ToolContext;
    /// assert!(!ToolContext::default().is_cancelled());
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.end.has_ended.load(Ordering::Acquire)
    }

    /// Waits until the result is not needed any more, for tasks that the handler has started.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent::ToolContext;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let context = ToolContext::default();
    /// tokio::spawn(async move { context.cancelled().await });
    /// # }
    /// ```
    pub async fn cancelled(&self) {
        let mut ended = std::pin::pin!(self.end.ended.notified());
        ended.as_mut().enable();
        if !self.is_cancelled() {
            ended.await;
        }
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("call_id", &self.call_id)
            .field("is_cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_report_replaces_unsent_report() {
        let (sender, mut reports) = watch::channel(Report::default());
        let (context, _running) = ToolContext::new("t".to_owned(), Some(sender));
        let last = |reports: &mut watch::Receiver<Report>| reports.borrow_and_update().clone();
        context.progress(Some(0.25), Some("first"));
        context.progress(None, Some("second"));
        assert_eq!(last(&mut reports), Report { fraction: Some(0.25), message: Some("second".to_owned()) });
        context.progress(Some(7.0), None);
        assert_eq!(last(&mut reports), Report { fraction: Some(1.0), message: None });
        for (given, reported) in [(f64::NAN, 1.0), (f64::NEG_INFINITY, 0.0), (f64::INFINITY, 1.0)] {
            context.progress(Some(given), None);
            assert_eq!(last(&mut reports).fraction, Some(reported));
        }
        // Without an agent that gets reports.
        ToolContext::default().progress(Some(0.5), None);
    }

    #[tokio::test]
    async fn end_of_call_cancels_its_context() {
        let (context, running) = ToolContext::new("t".to_owned(), None);
        let waiting = tokio::spawn({
            let context = context.clone();
            async move { context.cancelled().await }
        });
        assert!(!context.is_cancelled());
        drop(running);
        waiting.await.expect("no panic");
        context.cancelled().await;
        assert!(context.is_cancelled());
    }
}
