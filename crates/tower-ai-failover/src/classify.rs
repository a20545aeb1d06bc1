//! What an outcome means: whether the next candidate is tried, and what becomes of this one.

use crate::select::Again;
use http::{StatusCode, response};
use std::{error::Error, io, time::Duration};
use tower_ai_core::{BoxError, ErrorClass, Reason, RefusedBy, Scope, Silence, SilentPhase, UsageState};
use tower_ai_wire::WireError;

/// Why an attempt did not serve, and what follows from it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) reason: Reason,
    pub(crate) status: Option<StatusCode>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) again: Again,
}

/// What the head of an answer says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Head {
    /// 2xx: the body decides.
    Success,
    /// A status that another candidate may do better than. Its body may tell how long to wait.
    Rejected,
    /// Another layer inside answered for this attempt.
    Refused(Failure),
    /// For the caller as it is: any other status, or a refusal that concerns the caller.
    Pass,
}

/// Only 408, 429 and 5xx are failed over; any other 4xx is the caller's, and a redirect its business.
pub(crate) fn head(head: &response::Parts) -> Head {
    if let Some(refused) = head.extensions.get::<RefusedBy>() {
        return match refused.scope {
            Scope::Caller => Head::Pass,
            Scope::Attempt => Head::Refused(refusal(head, refused)),
        };
    }
    match head.status.as_u16() {
        200..300 => Head::Success,
        408 | 429 | 500..600 => Head::Rejected,
        _ => Head::Pass,
    }
}

fn refusal(head: &response::Parts, refused: &RefusedBy) -> Failure {
    let silence = head.extensions.get::<Silence>().copied();
    Failure {
        reason: silence.map_or(Reason::Refused, Reason::Silence),
        status: Some(head.status),
        retry_after: refused.retry_after,
        again: match silence {
            Some(_) => Again::Later,
            None => Again::AfterRest(refused.retry_after),
        },
    }
}

/// What a status that is failed over means, with the error its body tells.
pub(crate) fn rejection(status: StatusCode, error: &WireError) -> Failure {
    let again = match (status.as_u16(), error.class, error.retry_after) {
        (_, ErrorClass::Quota, None) => Again::Never, // until somebody pays
        (429, _, hint) => Again::AfterRest(hint),
        (_, _, Some(hint)) => Again::AfterRest(Some(hint)),
        _ => Again::Later,
    };
    Failure {
        reason: Reason::Status(status.as_u16()),
        status: Some(status),
        retry_after: error.retry_after,
        again,
    }
}

/// What an error inside a 200 means before any content. `None`: it is the caller's, as another 4xx would be.
pub(crate) fn stream_error(error: &WireError) -> Option<Failure> {
    let again = match error.class {
        ErrorClass::Quota if error.retry_after.is_none() => Again::Never,
        ErrorClass::Quota | ErrorClass::RateLimit => Again::AfterRest(error.retry_after),
        ErrorClass::Overloaded | ErrorClass::ServerError | ErrorClass::Timeout | ErrorClass::Truncated => {
            match error.retry_after {
                Some(hint) => Again::AfterRest(Some(hint)),
                None => Again::Later,
            }
        }
        _ => return None,
    };
    Some(Failure {
        reason: Reason::StreamError(error.class),
        status: Some(StatusCode::OK),
        retry_after: error.retry_after,
        again,
    })
}

/// A failure without an answer that means anything.
pub(crate) fn failure(reason: Reason) -> Failure {
    Failure {
        reason,
        status: None,
        retry_after: None,
        again: match reason {
            Reason::Unprepared => Again::Never,
            _ => Again::Later,
        },
    }
}

/// Why there was no answer, or why its body broke off.
pub(crate) fn fault(error: &BoxError) -> Reason {
    let mut cause: Option<&(dyn Error + 'static)> = Some(&**error);
    let mut reason = Reason::Reset;
    while let Some(error) = cause {
        if let Some(silence) = error.downcast_ref::<Silence>() {
            return Reason::Silence(*silence);
        }
        if is_no_connection(error) {
            reason = Reason::Connect; // go on: a silence within says more
        }
        cause = cause_of(error);
    }
    reason
}

/// `io::Error` names as its source what lies beneath the error that it wraps, not that error.
fn cause_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

fn is_no_connection(error: &(dyn Error + 'static)) -> bool {
    #[cfg(feature = "client")]
    if let Some(error) = error.downcast_ref::<crate::ClientError>() {
        return error.is_connect();
    }
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(
        kind,
        Some(
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::AddrNotAvailable
        )
    )
}

/// How far billing may have come at an upstream whose attempt failed so, after it was called.
pub(crate) fn billing(failure: &Failure) -> UsageState {
    match failure.reason {
        // Nothing was sent, or an error was answered: neither is billed.
        Reason::Connect
        | Reason::NotReady
        | Reason::Unprepared
        | Reason::Refused
        | Reason::Status(_)
        | Reason::StreamError(_)
        | Reason::Silence(Silence {
            phase: SilentPhase::Connect,
            ..
        }) => UsageState::NotBilled,
        _ => UsageState::MaybeBilled,
    }
}

/// Whether the upstream said that we ask too much of it, in whichever way.
pub(crate) fn is_throttle(status: Option<u16>, reason: Reason) -> bool {
    status == Some(429)
        || matches!(
            reason,
            Reason::StreamError(ErrorClass::RateLimit | ErrorClass::Quota)
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, Response};
    use tower_ai_core::{LayerKind, Refusable, Refusal, RefusalFormat, RefusalKind};
    use tower_ai_wire::classify;

    fn parts(status: u16) -> response::Parts {
        Response::builder()
            .status(status)
            .body(())
            .unwrap()
            .into_parts()
            .0
    }

    fn refused(refusal: Refusal) -> response::Parts {
        let response: Response<Refusable<()>> = refusal.into_response(RefusalFormat::OpenAi);
        response.into_parts().0
    }

    fn silent() -> Refusal {
        Refusal::new(
            LayerKind::TtfbWatchdog,
            RefusalKind::Timeout,
            "upstream_silent",
            "silent",
        )
    }

    fn wire_error(status: u16, body: &str) -> WireError {
        classify(
            StatusCode::from_u16(status).unwrap(),
            &HeaderMap::new(),
            body.as_bytes(),
        )
    }

    const SILENCE: Silence = Silence {
        phase: SilentPhase::FirstByte,
        limit: Duration::from_millis(50),
    };

    #[test]
    fn only_408_429_and_5xx_are_failed_over() {
        for status in [408, 429, 500, 501, 502, 503, 504, 505, 520, 524, 529, 599] {
            assert_eq!(head(&parts(status)), Head::Rejected, "{status}");
        }
        for status in [
            301, 304, 307, 400, 401, 402, 403, 404, 405, 409, 410, 413, 418, 422, 424, 431, 451, 498, 499,
        ] {
            assert_eq!(head(&parts(status)), Head::Pass, "{status}");
        }
        for status in [200, 201, 202, 204, 206] {
            assert_eq!(head(&parts(status)), Head::Success, "{status}");
        }
    }

    #[test]
    fn a_silence_is_told_by_its_phase_and_limit() {
        let mut parts = refused(silent().for_this_attempt());
        parts.extensions.insert(SILENCE);
        let Head::Refused(failure) = head(&parts) else {
            panic!("not refused")
        };
        assert_eq!(failure.reason.to_string(), "ttfb-50ms");
        assert_eq!(failure.again, Again::Later);
    }

    #[test]
    fn a_refusal_for_the_attempt_is_no_status_of_the_upstream() {
        let busy = Refusal::new(
            LayerKind::RateLimit,
            RefusalKind::RateLimit,
            "rate_limit_exceeded",
            "busy",
        );
        let hint = Duration::from_secs(3);
        let Head::Refused(failure) = head(&refused(busy.retry_after(hint).for_this_attempt())) else {
            panic!("not refused")
        };
        assert_eq!(
            (failure.reason, failure.again),
            (Reason::Refused, Again::AfterRest(Some(hint)))
        );
    }

    #[test]
    fn a_refusal_for_the_caller_passes_whatever_its_status() {
        assert_eq!(head(&refused(silent())), Head::Pass);
    }

    #[test]
    fn a_429_rests_a_5xx_only_when_it_says_so_and_an_empty_account_is_out() {
        let again =
            |status, body| rejection(StatusCode::from_u16(status).unwrap(), &wire_error(status, body)).again;
        assert_eq!(again(429, ""), Again::AfterRest(None));
        assert_eq!(again(500, ""), Again::Later);
        let hint = Some(Duration::from_millis(2502));
        assert_eq!(
            again(503, r#"{"error":{"message":"try again in 2.502s"}}"#),
            Again::AfterRest(hint)
        );
        assert_eq!(
            again(429, r#"{"error":{"code":"insufficient_quota"}}"#),
            Again::Never
        );
    }

    #[test]
    fn an_error_inside_a_200_counts_by_its_class() {
        let by_type =
            |kind: &str| stream_error(&wire_error(200, &format!(r#"{{"error":{{"type":"{kind}"}}}}"#)));
        let reason = |kind| by_type(kind).map(|failure| failure.reason.to_string());
        assert_eq!(reason("overloaded_error").as_deref(), Some("stream-overloaded"));
        assert_eq!(reason("api_error").as_deref(), Some("stream-server_error"));
        assert_eq!(reason("rate_limit_error").as_deref(), Some("stream-rate_limit"));
        assert_eq!(by_type("rate_limit_error").unwrap().again, Again::AfterRest(None));
        for callers in [
            "invalid_request_error",
            "authentication_error",
            "permission_error",
            "not_found_error",
        ] {
            assert_eq!(by_type(callers), None, "{callers}");
        }
    }

    #[test]
    fn a_fault_is_told_by_what_lies_deepest() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(fault(&refused.into()), Reason::Connect);
        assert_eq!(fault(&io::Error::other(SILENCE).into()), Reason::Silence(SILENCE));
        assert_eq!(fault(&"it broke".into()), Reason::Reset);
    }

    #[test]
    fn what_never_left_or_was_answered_with_an_error_is_not_billed() {
        for reason in [
            Reason::Connect,
            Reason::NotReady,
            Reason::Status(500),
            Reason::Refused,
        ] {
            assert_eq!(billing(&failure(reason)), UsageState::NotBilled, "{reason}");
        }
        for reason in [
            Reason::Reset,
            Reason::Truncated,
            Reason::Silence(SILENCE),
            Reason::StartLimit(Duration::ZERO),
        ] {
            assert_eq!(billing(&failure(reason)), UsageState::MaybeBilled, "{reason}");
        }
    }
}
