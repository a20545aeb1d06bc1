//! What a layer counts and times.

use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use std::sync::{Arc, Mutex, PoisonError};

/// Notes what is told to the `metrics` facade, in order: `name{label=value,…} amount`.
///
/// ```
/// let noted = testkit::MetricNotes::during(|| metrics::counter!("calls_total", "reason" => "ttfb").increment(2));
/// assert_eq!(noted.lines(), ["calls_total{reason=ttfb} 2"]);
/// assert_eq!(noted.sum("calls_total"), Some(2.0));
/// ```
#[derive(Clone, Debug, Default)]
pub struct MetricNotes(Arc<Mutex<Vec<Note>>>);

#[derive(Clone, Debug)]
struct Note {
    key: Key,
    amount: f64,
}

impl MetricNotes {
    /// What is told on this thread while `test` runs.
    pub fn during<T>(test: impl FnOnce() -> T) -> Self {
        let notes = Self::default();
        metrics::with_local_recorder(&notes, test);
        notes
    }

    /// Every note so far, in the order in which they were told.
    pub fn lines(&self) -> Vec<String> {
        self.lock().iter().map(Note::line).collect()
    }

    /// The same, and forgets them.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lock()).iter().map(Note::line).collect()
    }

    /// The sum of what was told under a name, whatever the labels; `None` if nothing was, not even 0.
    pub fn sum(&self, name: &str) -> Option<f64> {
        let notes = self.lock();
        let told = notes.iter().filter(|note| note.key.name() == name);
        told.map(|note| note.amount).reduce(|sum, amount| sum + amount)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Note>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Note {
    fn line(&self) -> String {
        let labels = self
            .key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()));
        format!(
            "{}{{{}}} {}",
            self.key.name(),
            labels.collect::<Vec<_>>().join(","),
            self.amount
        )
    }
}

/// One metric with its labels.
struct Instrument {
    key: Key,
    notes: MetricNotes,
}

impl Instrument {
    fn note(&self, amount: f64) {
        let key = self.key.clone();
        self.notes.lock().push(Note { key, amount });
    }
}

impl CounterFn for Instrument {
    fn increment(&self, by: u64) {
        self.note(by as f64);
    }

    fn absolute(&self, _: u64) {
        unreachable!("layers only add to a counter");
    }
}

impl HistogramFn for Instrument {
    fn record(&self, value: f64) {
        self.note(value);
    }
}

impl Recorder for MetricNotes {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let (key, notes) = (key.clone(), self.clone());
        Counter::from_arc(Arc::new(Instrument { key, notes }))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        unreachable!("no layer has a gauge: note it here when one does")
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let (key, notes) = (key.clone(), self.clone());
        Histogram::from_arc(Arc::new(Instrument { key, notes }))
    }
}
