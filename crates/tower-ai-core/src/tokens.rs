//! Token counts in one normal form for every provider.

/// Tokens and other billed units of one call, in **inclusive** form: `input` and `output` hold everything that
/// was read or generated, the other token fields are subsets of those two.
///
/// Providers differ (cached tokens are inside OpenAI's input count and beside Anthropic's); `tower-ai-wire`
/// brings each to this form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TokenCounts {
    /// Everything billed on the prompt side: uncached, cache reads and writes, audio, images, tool prompts.
    pub input: u64,
    /// Everything generated, reasoning and audio included.
    pub output: u64,
    /// Of `input`: read from a prompt cache.
    pub cached_read: u64,
    /// Of `input`: written to a prompt cache that lives 5 minutes.
    pub cache_write_5m: u64,
    /// Of `input`: written to a prompt cache that lives 1 hour.
    pub cache_write_1h: u64,
    /// Of `input`: written to a prompt cache whose lifetime is not told.
    pub cache_write_other: u64,
    /// Of `output`: reasoning.
    pub reasoning: u64,
    /// Of `input`: audio.
    pub audio_in: u64,
    /// Of `output`: audio.
    pub audio_out: u64,
    /// Of `input`: images.
    pub image_in: u64,
    /// Of `output`: images.
    pub image_out: u64,
    /// Web searches that are billed by the piece; no tokens.
    pub web_searches: u64,
}

impl TokenCounts {
    /// Counts with nothing but these two.
    pub const fn new(input: u64, output: u64) -> Self {
        Self {
            input,
            output,
            cached_read: 0,
            cache_write_5m: 0,
            cache_write_1h: 0,
            cache_write_other: 0,
            reasoning: 0,
            audio_in: 0,
            audio_out: 0,
            image_in: 0,
            image_out: 0,
            web_searches: 0,
        }
    }

    /// Input and output together.
    pub const fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// All tokens written to a prompt cache.
    pub const fn cache_write(&self) -> u64 {
        self.cache_write_5m
            .saturating_add(self.cache_write_1h)
            .saturating_add(self.cache_write_other)
    }

    /// The input that was neither read from nor written to a cache.
    pub const fn input_uncached(&self) -> u64 {
        self.input
            .saturating_sub(self.cached_read)
            .saturating_sub(self.cache_write())
    }

    /// Field by field sum, saturating.
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cached_read: self.cached_read.saturating_add(other.cached_read),
            cache_write_5m: self.cache_write_5m.saturating_add(other.cache_write_5m),
            cache_write_1h: self.cache_write_1h.saturating_add(other.cache_write_1h),
            cache_write_other: self.cache_write_other.saturating_add(other.cache_write_other),
            reasoning: self.reasoning.saturating_add(other.reasoning),
            audio_in: self.audio_in.saturating_add(other.audio_in),
            audio_out: self.audio_out.saturating_add(other.audio_out),
            image_in: self.image_in.saturating_add(other.image_in),
            image_out: self.image_out.saturating_add(other.image_out),
            web_searches: self.web_searches.saturating_add(other.web_searches),
        }
    }
}
