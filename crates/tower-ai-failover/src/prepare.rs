//! The request of one attempt, made from the caller's: target, credentials, model name.

use crate::upstream::Candidate;
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Uri, Version,
    header::{
        ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, EXPECT, FORWARDED,
        HOST, PROXY_AUTHORIZATION, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
    },
    request::Parts,
    uri::{self, PathAndQuery},
};
use tower_ai_core::{Buffered, Dialect, Operation};
use tower_ai_wire::splice;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const OPENAI_ORGANIZATION: HeaderName = HeaderName::from_static("openai-organization");
const OPENAI_PROJECT: HeaderName = HeaderName::from_static("openai-project");
const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");
/// Sent when the caller names no version of Anthropic's API: without one it refuses every call.
const DEFAULT_ANTHROPIC_VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// The target is no URI.
#[derive(Debug)]
pub(crate) struct Unprepared;

/// The request of one attempt. It is always made from the caller's own, so that no attempt sees what another changed.
///
/// A whole body's `content-length` is left to the client, which knows the exact size: layers further in may still
/// change the body.
pub(crate) fn prepare<B>(
    candidate: &Candidate,
    original: &Parts,
    operation: Option<Operation>,
    body: Buffered<B>,
) -> Result<Request<Buffered<B>>, Unprepared> {
    let uri = target(candidate, &original.uri, operation)?;
    let mut headers = travelling(&original.headers);
    if body.bytes().is_some() {
        headers.remove(CONTENT_LENGTH);
    }
    if !is_grpc(&original.headers) {
        headers.insert(ACCEPT_ENCODING, IDENTITY); // an encoded answer could not be read
    }
    if let Some(credentials) = &candidate.credentials {
        let name = match candidate.dialect {
            Some(Dialect::Anthropic) => X_API_KEY,
            _ => AUTHORIZATION,
        };
        headers.insert(name, credentials.clone());
    }
    if candidate.dialect == Some(Dialect::Anthropic) {
        headers
            .entry(ANTHROPIC_VERSION)
            .or_insert(DEFAULT_ANTHROPIC_VERSION);
    }
    let body = match (operation, &candidate.named) {
        (Some(operation), Some(model)) => {
            body.map_whole(|bytes| splice::with_model(operation, &bytes, model))
        }
        _ => body,
    };

    let mut request = Request::new(body);
    *request.method_mut() = original.method.clone();
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_11; // the client and the upstream agree on their own
    *request.headers_mut() = headers;
    *request.extensions_mut() = original.extensions.clone();
    Ok(request)
}

/// Whether the path stays below what it is appended to. A `..` could climb out of the upstream's base, to
/// another tenant of its host, with our key.
pub(crate) fn is_confined(path: &str) -> bool {
    !path.split('/').any(|segment| {
        let dots = segment.to_ascii_lowercase().replace("%2e", ".");
        dots == ".." || dots == "."
    })
}

pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    content_type.is_some_and(|value| value.starts_with(b"application/grpc"))
}

/// Takes out of an answer what is not for the caller: what is for one hop only (the next one may speak HTTP/2, where these
/// are illegal), what the upstream wants to find again at us, and whose account we use there.
pub(crate) fn strip_headers(headers: &mut HeaderMap) {
    const ENDS_HERE: [HeaderName; 9] = [
        CONNECTION,
        SET_COOKIE,
        TRANSFER_ENCODING,
        UPGRADE,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
        OPENAI_ORGANIZATION,
        OPENAI_PROJECT,
        HeaderName::from_static("anthropic-organization-id"),
    ];
    for name in named_in_connection(headers).into_iter().chain(ENDS_HERE) {
        headers.remove(name);
    }
}

/// The headers that `Connection` declares to be for this hop.
fn named_in_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(CONNECTION).into_iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect()
}

fn target(candidate: &Candidate, original: &Uri, operation: Option<Operation>) -> Result<Uri, Unprepared> {
    let path = own_path(candidate.dialect, original.path(), operation);
    let path_and_query = match original.query() {
        Some(query) => format!("{}{path}?{query}", candidate.prefix),
        None => format!("{}{path}", candidate.prefix),
    };
    let mut parts = uri::Parts::default();
    parts.scheme = Some(candidate.scheme.clone());
    parts.authority = Some(candidate.authority.clone());
    parts.path_and_query = Some(PathAndQuery::try_from(path_and_query).map_err(|_| Unprepared)?);
    Uri::from_parts(parts).map_err(|_| Unprepared)
}

/// What follows an upstream's base.
fn own_path(dialect: Option<Dialect>, path: &str, operation: Option<Operation>) -> &str {
    match (operation, dialect) {
        (Some(operation), _) => operation.path(),
        (None, Some(_)) => path
            .strip_prefix("/v1")
            .filter(|rest| rest.starts_with('/'))
            .unwrap_or(path),
        (None, None) => path,
    }
}

/// The caller's headers without those that are for us or for one hop only.
fn travelling(original: &HeaderMap) -> HeaderMap {
    let for_this_hop = named_in_connection(original);
    let mut headers = HeaderMap::with_capacity(original.len() + 3);
    for (name, value) in original {
        let stays = match name.as_str() {
            "te" => value != "trailers", // gRPC needs it
            _ => is_ours(name) || for_this_hop.contains(name),
        };
        if !stays {
            headers.append(name, value.clone());
        }
    }
    headers
}

/// Whether a header ends here: credentials for us, how this hop works, who is behind us.
fn is_ours(name: &HeaderName) -> bool {
    const ENDS_HERE: [HeaderName; 17] = [
        ACCEPT_ENCODING,
        AUTHORIZATION,
        CONNECTION,
        COOKIE,
        EXPECT, // hyper sends the body at once, whatever it says
        FORWARDED,
        HOST,
        PROXY_AUTHORIZATION,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
        VIA,
        X_API_KEY,
        HeaderName::from_static("api-key"),
        OPENAI_ORGANIZATION, // these choose who is billed, and the key is ours
        OPENAI_PROJECT,
    ];
    ENDS_HERE.contains(name)
        || matches!(name.as_str(), "keep-alive" | "proxy-connection" | "x-real-ip")
        || name.as_str().starts_with("x-forwarded-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Upstream;
    use bytes::Bytes;
    use http_body_util::Full;

    fn original(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut builder = Request::post(uri);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap().into_parts().0
    }

    fn prepared(
        upstream: Upstream,
        original: &Parts,
        operation: Option<Operation>,
    ) -> Request<Buffered<Full<Bytes>>> {
        prepare(
            &upstream.check().unwrap(),
            original,
            operation,
            Buffered::whole("{}"),
        )
        .unwrap()
    }

    fn target_of(upstream: Upstream, uri: &str, operation: Option<Operation>) -> String {
        prepared(upstream, &original(uri, &[]), operation)
            .uri()
            .to_string()
    }

    #[test]
    fn what_an_upstream_says_of_its_hop_or_of_our_account_ends_here() {
        let ends_here = [
            ("connection", "X-Hop, keep-alive"),
            ("connection", "x-other-hop"),
            ("x-hop", "1"),
            ("x-other-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "close"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("set-cookie", "__cf_bm=1"),
            ("set-cookie", "_cfuvid=2"),
            ("openai-organization", "org-ours"),
            ("openai-project", "proj-ours"),
            ("anthropic-organization-id", "org-ours"),
        ];
        let travels = [
            ("content-type", "application/json"),
            ("x-request-id", "req-1"),
            ("request-id", "req-2"),
            ("openai-processing-ms", "12"),
            ("openai-version", "2020-10-01"),
            ("x-ratelimit-remaining-requests", "9"),
        ];
        let mut headers = HeaderMap::new();
        for (name, value) in ends_here.into_iter().chain(travels) {
            headers.append(name, value.parse().unwrap());
        }
        strip_headers(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        let mut expected = travels.map(|(name, _)| name);
        left.sort_unstable();
        expected.sort_unstable();
        assert_eq!(left, expected);
    }

    #[test]
    fn a_caller_cannot_choose_which_of_our_accounts_pays() {
        let mut headers = HeaderMap::new();
        headers.insert("openai-organization", "org-theirs".parse().unwrap());
        headers.insert("openai-project", "proj-theirs".parse().unwrap());
        assert!(travelling(&headers).is_empty());
    }

    #[test]
    fn the_base_replaces_everything_before_the_operations_own_path() {
        let chat = Some(Operation::ChatCompletions);
        for asked in [
            "/v1/chat/completions",
            "/openai/v1/chat/completions",
            "/chat/completions",
        ] {
            let upstream = Upstream::openai("a", "https://a.example/deep/v1/");
            assert_eq!(
                target_of(upstream, asked, chat),
                "https://a.example/deep/v1/chat/completions"
            );
        }
        let upstream = Upstream::anthropic("a", "https://a.example");
        let messages = target_of(upstream, "/v1/messages?beta=true", Some(Operation::Messages));
        assert_eq!(messages, "https://a.example/v1/messages?beta=true");
    }

    #[test]
    fn the_path_of_any_other_call_follows_the_base_without_its_v1() {
        let upstream = || Upstream::openai("a", "http://a:8000/v1");
        assert_eq!(
            target_of(upstream(), "/v1/files/7?x=1", None),
            "http://a:8000/v1/files/7?x=1"
        );
        assert_eq!(
            target_of(upstream(), "/v1x/files", None),
            "http://a:8000/v1/v1x/files"
        );
        let plain = Upstream::plain("p", "http://p");
        assert_eq!(
            target_of(plain, "/v1/pkg.Service/Call", None),
            "http://p/v1/pkg.Service/Call"
        );
    }

    #[test]
    fn what_is_for_us_or_for_one_hop_does_not_travel() {
        let ours = [
            ("authorization", "Bearer caller"),
            ("x-api-key", "caller"),
            ("api-key", "caller"),
            ("cookie", "session=1"),
            ("host", "gateway"),
            ("expect", "100-continue"),
            ("connection", "keep-alive, X-Hop"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "gzip"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("forwarded", "for=1.2.3.4"),
            ("x-forwarded-for", "1.2.3.4"),
            ("x-real-ip", "1.2.3.4"),
            ("content-length", "999"),
        ];
        let request = prepared(Upstream::openai("a", "http://a"), &original("/v1/x", &ours), None);
        let left: Vec<_> = request
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str(), value))
            .collect();
        assert_eq!(left, [("accept-encoding", &IDENTITY)]);
    }

    #[test]
    fn all_other_headers_travel_in_their_order() {
        let asked = [
            ("x-request-id", "7"),
            ("x-a", "1"),
            ("x-a", "2"),
            ("te", "trailers"),
            ("accept-encoding", "gzip"),
        ];
        let request = prepared(
            Upstream::openai("a", "http://a").key("k"),
            &original("/v1/x", &asked),
            None,
        );
        let values: Vec<_> = request.headers().get_all("x-a").iter().collect();
        assert_eq!(values, ["1", "2"]);
        assert_eq!(request.headers()["x-request-id"], "7");
        assert_eq!(request.headers()["te"], "trailers");
        assert_eq!(request.headers()["accept-encoding"], "identity");
        assert_eq!(request.headers()["authorization"], "Bearer k");
    }

    #[test]
    fn an_anthropic_upstream_gets_its_key_and_a_version() {
        let asked = original("/v1/messages", &[("x-api-key", "caller")]);
        let upstream = || Upstream::anthropic("a", "http://a").key("ours");
        let request = prepared(upstream(), &asked, Some(Operation::Messages));
        assert_eq!(request.headers()["x-api-key"], "ours");
        assert_eq!(request.headers()["anthropic-version"], "2023-06-01");
        let asked = original("/v1/messages", &[("anthropic-version", "2099-01-01")]);
        let request = prepared(upstream(), &asked, Some(Operation::Messages));
        assert_eq!(request.headers()["anthropic-version"], "2099-01-01");
    }

    #[test]
    fn without_an_own_name_the_body_is_the_callers_very_bytes() {
        let bytes = Bytes::from_static(br#"{"model":"gpt-5"}"#);
        let candidate = Upstream::openai("a", "http://a").check().unwrap();
        let asked = original("/v1/chat/completions", &[]);
        let body = Buffered::<Full<Bytes>>::whole(bytes.clone());
        let request = prepare(&candidate, &asked, Some(Operation::ChatCompletions), body).unwrap();
        assert_eq!(request.body().bytes().unwrap().as_ptr(), bytes.as_ptr());
    }

    #[test]
    fn a_model_is_renamed_for_the_upstream_and_nothing_else_changes() {
        let candidate = Upstream::openai("a", "http://a")
            .named("gpt5-eu")
            .check()
            .unwrap();
        let asked = original("/v1/chat/completions", &[("content-length", "42")]);
        let body = Buffered::<Full<Bytes>>::whole(&br#"{ "model" : "gpt-5", "n":1 }"#[..]);
        let request = prepare(&candidate, &asked, Some(Operation::ChatCompletions), body).unwrap();
        assert_eq!(
            request.body().bytes().unwrap(),
            &br#"{ "model" : "gpt5-eu", "n":1 }"#[..]
        );
        assert!(!request.headers().contains_key(CONTENT_LENGTH));
    }

    #[test]
    fn a_body_that_was_not_read_keeps_its_announced_length() {
        let candidate = Upstream::openai("a", "http://a").check().unwrap();
        let asked = original("/v1/files", &[("content-length", "42")]);
        let request = prepare(
            &candidate,
            &asked,
            None,
            Buffered::unread(Full::<Bytes>::default()),
        )
        .unwrap();
        assert_eq!(request.headers()[CONTENT_LENGTH], "42");
    }

    #[test]
    fn a_path_cannot_climb_out_of_the_base() {
        for path in ["/v1/../x", "/v1/%2e%2E/x", "/v1/.%2e", "/./x"] {
            assert!(!is_confined(path), "{path}");
        }
        assert!(is_confined("/v1/files/a..b/...") && is_confined("/"));
    }
}
