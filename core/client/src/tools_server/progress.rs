//! The reports of a call's progress: those of the tool, and a sign of life if it reports nothing.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::tool_context::Report;

/// The shortest time between two reports. A tool that reports more often is not slowed down.
const PAUSE: Duration = Duration::from_millis(100);

/// Sends the reports of one call to its client, if the client asks for reports.
pub(super) struct Reporter<'a> {
    context: &'a RequestContext<RoleServer>,
    token: Option<ProgressToken>,
    reports: watch::Receiver<Report>,
    /// The longest time without a report.
    interval: Duration,
    begun: Instant,
    sent_at: Option<Instant>,
    sent: Report,
    scale: Scale,
}

impl<'a> Reporter<'a> {
    pub(super) fn new(
        context: &'a RequestContext<RoleServer>,
        reports: watch::Receiver<Report>,
        interval: Duration,
    ) -> Self {
        Self {
            context,
            token: context.meta.get_progress_token(),
            reports,
            interval,
            begun: Instant::now(),
            sent_at: None,
            sent: Report::default(),
            scale: Scale::default(),
        }
    }

    /// Waits until a report is due. Never returns if the client asks for no reports.
    pub(super) async fn due(&mut self) {
        if self.token.is_none() {
            return std::future::pending().await;
        }
        if let Some(sent_at) = self.sent_at {
            sleep_until(sent_at + PAUSE.min(self.interval)).await;
        }
        let silence_ends = sleep_until(self.sent_at.unwrap_or(self.begun) + self.interval);
        let reported = async {
            if self.reports.changed().await.is_err() {
                // The handler has ended, so that only its result is to come.
                std::future::pending().await
            }
        };
        tokio::select! {
            () = reported => {}
            () = silence_ends => {}
        }
    }

    /// Sends the last report of the tool, or that it runs.
    pub(super) async fn send(&mut self) {
        let Some(token) = self.token.clone() else { return };
        self.sent = self.reports.borrow_and_update().clone();
        let elapsed = self.begun.elapsed();
        let (progress, total) = self.scale.place(self.sent.fraction, elapsed.as_secs_f64());
        let mut report = ProgressNotificationParam::new(token, progress);
        report.total = total;
        report.message = self.sent.message.clone();
        if total.is_none() && report.message.is_none() {
            report.message = Some(format!("running for {} s", elapsed.as_secs()));
        }
        tokio::select! {
            sent = self.context.peer.notify_progress(report) => {
                if let Err(error) = sent {
                    tracing::debug!(%error, "the progress of a tool call cannot be reported");
                    self.token = None;
                }
            }
            () = self.context.ct.cancelled() => {}
        }
        self.sent_at = Some(Instant::now());
    }

    /// Sends the last report of the tool, unless it was sent.
    pub(super) async fn finish(mut self) {
        if *self.reports.borrow() != self.sent {
            self.send().await;
        }
    }
}

/// The values of reports, which must increase. They are seconds until the tool reports a fraction.
#[derive(Default)]
struct Scale {
    last: f64,
    total: Option<f64>,
}

impl Scale {
    /// Returns the value and the total of a report. Their ratio is the fraction, unless that has not increased.
    fn place(&mut self, fraction: Option<f64>, seconds: f64) -> (f64, Option<f64>) {
        if let Some(fraction) = fraction.filter(|fraction| *fraction > 0.0)
            && self.total.is_none()
        {
            let reached = self.last < fraction;
            self.total = Some(if reached { 1.0 } else { seconds.max(self.last.next_up()) / fraction });
        }
        let value = fraction.zip(self.total).map_or(seconds, |(fraction, total)| fraction * total);
        self.last = value.max(self.last.next_up());
        (self.last, self.total)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fractions_have_total_one() {
        let mut scale = Scale::default();
        assert_eq!(scale.place(Some(0.25), 0.001), (0.25, Some(1.0)));
        assert_eq!(scale.place(Some(0.5), 90.0), (0.5, Some(1.0)));
        // A sign of life has the last fraction.
        assert_eq!(scale.place(Some(0.5), 100.0), (0.5_f64.next_up(), Some(1.0)));
    }

    #[test]
    fn first_fraction_after_signs_of_life() {
        let mut scale = Scale::default();
        assert_eq!(scale.place(None, 10.0), (10.0, None));
        assert_eq!(scale.place(Some(0.0), 20.0), (20.0, None));
        assert_eq!(scale.place(Some(0.5), 25.0), (25.0, Some(50.0)));
        assert_eq!(scale.place(Some(1.0), 26.0), (50.0, Some(50.0)));
    }

    proptest! {
        #[test]
        fn values_increase(steps in proptest::collection::vec((proptest::option::of(0.0..=1.0_f64), 0.0..1e6_f64), 1..40)) {
            let (mut scale, mut last, mut seconds) = (Scale::default(), 0.0, 0.0);
            for (fraction, passed) in steps {
                seconds += passed;
                let (value, total) = scale.place(fraction, seconds);
                prop_assert!(value > last && value.is_finite() && total.is_none_or(|total| total > 0.0 && total.is_finite()));
                last = value;
            }
        }
    }
}
