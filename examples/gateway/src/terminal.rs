//! Log lines on stderr; stdout is for programs that start the gateway.

use std::{
    fmt::{self, Write as _},
    io::{self, IsTerminal},
};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter,
    fmt::{
        FmtContext, FormatEvent, FormatFields, FormattedFields,
        format::{Compact, Format, Writer},
        time::{self, FormatTime, Uptime},
    },
    registry::LookupSpan,
};

/// Shows what the layers tell: each failover decision, refusals, alerts. `RUST_LOG` chooses (`RUST_LOG=debug` shows the
/// estimates too).
pub fn init() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let color = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(color)
        .with_env_filter(filter)
        .event_format(Lines::new())
        .init();
}

/// The usual format, except for failover decisions: `failover: silent ttfb-50ms → next, 539.9 s left (id=req_1)`.
struct Lines {
    usual: Format<Compact, Uptime>,
    uptime: Uptime,
}

impl Lines {
    fn new() -> Self {
        let uptime = time::uptime();
        Self {
            usual: tracing_subscriber::fmt::format().with_timer(uptime).compact(),
            uptime,
        }
    }
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut decision = Decision::default();
        if event.metadata().target() == "ai_failover" {
            event.record(&mut decision);
        }
        if decision.action.is_empty() {
            return self.usual.format_event(context, line, event);
        }
        self.uptime.format_time(&mut line)?;
        write!(line, " {decision}")?;
        if let Some(span) = context.lookup_current()
            && let Some(fields) = span.extensions().get::<FormattedFields<N>>()
        {
            write!(line, " ({fields})")?;
        }
        writeln!(line)
    }
}

/// The fields of a failover decision.
#[derive(Default)]
struct Decision {
    action: String,
    candidate: String,
    reason: String,
    remaining_ms: u64,
    wait_ms: u64,
}

impl Visit for Decision {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "remaining_ms" => self.remaining_ms = value,
            "wait_ms" => self.wait_ms = value,
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = match field.name() {
            "action" => &mut self.action,
            "candidate" => &mut self.candidate,
            "reason" => &mut self.reason,
            _ => return,
        };
        let _ = write!(text, "{value:?}"); // a `String` takes everything
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            action,
            candidate,
            reason,
            ..
        } = self;
        match action.as_str() {
            "serve" => write!(f, "failover: {candidate} serves")?,
            "wait" => write!(f, "failover: {candidate} {reason} → wait {} ms", self.wait_ms)?,
            _ => write!(f, "failover: {candidate} {reason} → {action}")?,
        }
        let tenths = self.remaining_ms / 100;
        write!(f, ", {}.{} s left", tenths / 10, tenths % 10)
    }
}
