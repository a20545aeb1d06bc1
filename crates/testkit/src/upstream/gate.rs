//! A gate that the test opens.

use std::sync::Arc;
use tokio::sync::watch;

/// Keeps replies back until the test opens it. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// Lets everything pass, now and later.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    pub(super) async fn passed(&self) {
        let _ = self.0.subscribe().wait_for(|is_open| *is_open).await; // the sender is in `self`
    }
}

impl Default for Gate {
    /// A gate that is shut.
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}
