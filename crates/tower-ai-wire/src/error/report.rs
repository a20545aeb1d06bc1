//! What an error body says, in whichever of the providers' shapes.

use crate::{
    json::{Object, Value},
    retry,
    scanner::sse::DataLines,
};
use http::HeaderMap;
use std::time::Duration;

/// Whether a JSON object in the place of an answer, or of a chunk of one, is an error.
pub(crate) fn is_error(object: &Object<'_>) -> bool {
    let says = |name: &str| object.string(name).as_deref() == Some("error");
    let groq = || object.object("x_groq")?.get("error");
    object
        .get("error")
        .is_some_and(|error| !matches!(error.raw(), "\"\"" | "{}" | "false"))
        || says("type")
        || says("object")
        || groq().is_some()
}

/// What was found in an error's body and headers.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Codes, types and names of exceptions, in lower case.
    identifiers: Vec<String>,
    /// Messages, or a body that is no JSON, in lower case.
    text: String,
    /// A status of its own.
    status: Option<u16>,
    /// How long to wait, as told in a field of its own.
    retry_delay: Option<Duration>,
    /// Whether a moderation told its reasons.
    pub(super) is_moderated: bool,
    /// Whether a limit per day was hit.
    pub(super) is_daily_quota: bool,
}

impl Report {
    pub(crate) fn read(headers: &HeaderMap, body: &[u8]) -> Self {
        let mut report = Self::default();
        // Bedrock's, `ThrottlingException:http://…`.
        if let Some(exception) = headers
            .get("x-amzn-errortype")
            .and_then(|value| value.to_str().ok())
        {
            report.add_identifier(exception.split(':').next().unwrap_or_default());
        }
        // Some answer a request for a stream with an event, whatever the status.
        let data = DataLines::of(body).data();
        let [body, data] = [body, &data].map(String::from_utf8_lossy);
        let json = Value::parse(body.trim_start_matches('\u{feff}')).or_else(|_| Value::parse(&data));
        match json {
            Ok(json) => report.read_body(json),
            Err(_) => report.add_text(&body),
        }
        report
    }

    pub(super) fn identifiers(&self) -> impl Iterator<Item = &str> {
        self.identifiers.iter().map(String::as_str)
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The status that the body names: an error in a 200 has no other.
    pub(super) fn status(&self) -> Option<u16> {
        self.status
    }

    /// How long the body asks to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.retry_delay.or_else(|| retry::in_message(&self.text))
    }

    fn read_body(&mut self, body: Value<'_>) {
        // Google wraps the error of a stream in an array.
        let body = body.elements().first().copied().unwrap_or(body);
        let Some(body) = body.object() else {
            return self.add_text(body.raw());
        };
        self.read_error(&body);
        let of_choice = || body.elements("choices").first()?.object()?.get("error");
        let of_groq = || body.object("x_groq")?.get("error");
        if let Some(error) = body.get("error").or_else(of_choice).or_else(of_groq) {
            match error.object() {
                Some(error) => self.read_error(&error),
                // A sentence, or a bare code.
                None => self.add_code(error),
            }
        }
    }

    fn read_error(&mut self, error: &Object<'_>) {
        for name in [
            "code",
            "type",
            "status",
            "status_code",
            "error_code",
            "reason",
            "__type",
        ] {
            if let Some(value) = error.get(name) {
                self.add_code(value);
            }
        }
        for name in ["message", "detail"] {
            if let Some(value) = error.get(name) {
                self.add_value_text(value);
            }
        }
        for detail in error.elements("details") {
            self.read_google_detail(detail);
        }
        for holder in ["details", "innererror"] {
            if let Some(holder) = error.object(holder) {
                let codes = ["code", "error_code"]
                    .into_iter()
                    .filter_map(|name| holder.get(name));
                codes.for_each(|code| self.add_code(code));
            }
        }
        if let Some(metadata) = error.object("metadata") {
            self.is_moderated |= !metadata.elements("reasons").is_empty();
            if let Some(raw) = metadata.get("raw") {
                self.add_value_text(raw);
            }
        }
    }

    fn read_google_detail(&mut self, detail: Value<'_>) {
        let Some(detail) = detail.object() else { return };
        if let Some(reason) = detail.get("reason") {
            self.add_code(reason);
        }
        if let Some(delay) = detail.string("retryDelay") {
            self.retry_delay = retry::duration(&delay);
        }
        let quotas = detail.elements("violations").into_iter();
        let mut quotas = quotas.filter_map(|violation| violation.object()?.string("quotaId"));
        self.is_daily_quota |= quotas.any(|id| id.contains("PerDay"));
    }

    /// A code may be a name, a status as a number or a string, or a sentence (xAI).
    fn add_code(&mut self, code: Value<'_>) {
        let name = code.string();
        let digits = name.as_deref().unwrap_or(code.raw());
        if let Some(status) = digits.parse().ok().filter(|status| (400..600).contains(status)) {
            self.status = Some(status);
        } else if let Some(name) = name {
            self.add_identifier(&name);
            self.add_text(&name);
        } else {
            self.add_identifier(code.raw());
        }
    }

    fn add_identifier(&mut self, name: &str) {
        self.identifiers.push(name.to_ascii_lowercase());
    }

    /// A message is a string, or now and then an object with one somewhere within.
    fn add_value_text(&mut self, value: Value<'_>) {
        match value.string() {
            Some(text) => self.add_text(&text),
            None => self.add_text(value.raw()),
        }
    }

    fn add_text(&mut self, text: &str) {
        self.text.push_str(&text.to_lowercase());
        self.text.push('\n');
    }
}
