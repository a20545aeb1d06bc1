//! What the upstream saw, and its script.

use super::reply::Reply;
use bytes::Bytes;
use http::{HeaderMap, Method};
use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use tokio::sync::Notify;

/// A request as the upstream saw it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpstreamRequest {
    /// Its method. What was not read of a request is `GET`, empty, or nothing.
    pub method: Method,
    /// Its target: path and query.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body without the framing; in part when the upload broke off, empty until one of both is known.
    pub body: Bytes,
    /// Bytes of its body that were read so far.
    pub body_bytes: usize,
    /// On which connection it came, from 0.
    pub connection: usize,
    /// Whether it was read as far as its reply wants.
    pub is_read: bool,
    /// When its first byte came.
    pub arrived_at: Instant,
    /// When the client was seen to give it up: a FIN, RST or stream reset before the reply was done.
    pub cancelled_at: Option<Instant>,
    /// When the reply was written.
    pub finished_at: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Log {
    replies: Vec<Reply>,
    requests: Mutex<Vec<UpstreamRequest>>,
    changed: Notify,
}

impl Log {
    pub(super) fn new(replies: Vec<Reply>) -> Self {
        assert!(!replies.is_empty(), "an upstream's script has a reply");
        Self {
            replies,
            requests: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// A request has come: what to do with it, and where to note how it goes.
    pub(super) fn begin(self: &Arc<Self>, connection: usize) -> (Reply, Entry) {
        let mut requests = self.lock();
        let index = requests.len();
        requests.push(UpstreamRequest {
            method: Method::GET,
            path: String::new(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            body_bytes: 0,
            connection,
            is_read: false,
            arrived_at: Instant::now(),
            cancelled_at: None,
            finished_at: None,
        });
        drop(requests);
        self.changed.notify_waiters();
        let reply = self.replies[index.min(self.replies.len() - 1)].clone();
        (
            reply,
            Entry {
                log: self.clone(),
                index,
            },
        )
    }

    pub(super) fn requests(&self) -> Vec<UpstreamRequest> {
        self.lock().clone()
    }

    pub(super) async fn wait_for<T>(&self, found: impl Fn(&[UpstreamRequest]) -> Option<T>) -> T {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable(); // from here on, no change is missed
            if let Some(found) = found(&self.lock()) {
                return found;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<UpstreamRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request in the log. Dropped before it was finished, the request was cancelled.
pub(super) struct Entry {
    log: Arc<Log>,
    index: usize,
}

impl Entry {
    pub(super) fn note(&self, change: impl FnOnce(&mut UpstreamRequest)) {
        change(&mut self.log.lock()[self.index]);
        self.log.changed.notify_waiters();
    }

    pub(super) fn request(&self) -> UpstreamRequest {
        self.log.lock()[self.index].clone()
    }

    pub(super) fn finish(&self) {
        self.note(|request| request.finished_at = Some(Instant::now()));
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.note(|request| {
            if request.finished_at.is_none() {
                request.cancelled_at = Some(Instant::now());
            }
        });
    }
}
