//! The tokens of a turn, if an agent reports them.
//!
//! ACP has no stable place for them. Claude Code and OpenCode put `usage` into the answer to a prompt, Gemini CLI puts
//! `quota` into the answer's `_meta`, and Qwen Code puts `usage` into the `_meta` of an empty text after each request to
//! the model. Mistral Vibe counts the tokens of the whole session.

use agent_client_protocol_schema::v1 as acp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Acp;
use crate::dialect::{Incoming, known};
use crate::json::whole_number;
use crate::messages::{Json, StatusUpdate, TokenUsage};

/// The counts that an agent reports. Agents differ in whether the input includes cached tokens, and whether the output
/// includes thinking. The total shows which is the case.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    total_tokens: Option<u64>,
    input_tokens: u64,
    output_tokens: u64,
    thought_tokens: Option<u64>,
    cached_read_tokens: Option<u64>,
    cached_write_tokens: Option<u64>,
}

impl Counts {
    fn read(value: &Value) -> Option<Self> {
        let given = |names: &[&str]| names.iter().find_map(|name| value.get(*name)).filter(|count| !count.is_null());
        let optional = |names: &[&str]| {
            let count = given(names)?;
            let read = whole_number(count);
            if read.is_none() {
                tracing::debug!(field = names[0], "a count of tokens that can't be read is left out");
            }
            read
        };
        let input_tokens = optional(&["inputTokens", "input_tokens"]);
        let output_tokens = optional(&["outputTokens", "output_tokens"]);
        // Without one of these, the others say nothing.
        input_tokens.or(output_tokens)?;
        Some(Self {
            total_tokens: optional(&["totalTokens", "total_tokens"]),
            input_tokens: input_tokens.unwrap_or(0),
            output_tokens: output_tokens.unwrap_or(0),
            thought_tokens: optional(&["thoughtTokens"]),
            cached_read_tokens: optional(&["cachedReadTokens"]),
            cached_write_tokens: optional(&["cachedWriteTokens"]),
        })
    }

    /// Returns the counts since earlier ones of the same session. An agent that has begun to count anew has counted only
    /// what is new.
    fn since(&self, before: &Self) -> Self {
        let since = |now: Option<u64>, before: Option<u64>| match now {
            Some(now) => now.checked_sub(before.unwrap_or(0)).map(Some),
            None => Some(None),
        };
        let counted = || {
            Some(Self {
                total_tokens: since(self.total_tokens, before.total_tokens)?,
                input_tokens: self.input_tokens.checked_sub(before.input_tokens)?,
                output_tokens: self.output_tokens.checked_sub(before.output_tokens)?,
                thought_tokens: since(self.thought_tokens, before.thought_tokens)?,
                cached_read_tokens: since(self.cached_read_tokens, before.cached_read_tokens)?,
                cached_write_tokens: since(self.cached_write_tokens, before.cached_write_tokens)?,
            })
        };
        counted().unwrap_or(*self)
    }

    fn usage(&self) -> TokenUsage {
        let (read, written) = (self.cached_read_tokens.unwrap_or(0), self.cached_write_tokens.unwrap_or(0));
        let (cached, thought) = (read.saturating_add(written), self.thought_tokens.unwrap_or(0));
        let counted = self.input_tokens.saturating_add(self.output_tokens);
        let beyond = self.total_tokens.unwrap_or(counted).saturating_sub(counted);
        let cache_is_apart = cached > 0 && beyond >= cached;
        let thought_is_apart =
            thought > 0 && beyond == if cache_is_apart { cached.saturating_add(thought) } else { thought };
        let input = if cache_is_apart { self.input_tokens } else { self.input_tokens.saturating_sub(cached) };
        let output = if thought_is_apart { self.output_tokens.saturating_add(thought) } else { self.output_tokens };
        let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
        TokenUsage {
            input_other: count(input),
            output: count(output),
            input_cache_read: count(read),
            input_cache_creation: count(written),
            ..TokenUsage::default()
        }
    }
}

impl Acp {
    /// Reports the tokens in the answer to a prompt, unless they were reported while the turn ran.
    pub(super) fn usage_of_answer(&mut self, answer: &Json, all: &mut Vec<Incoming>) {
        #[derive(Deserialize)]
        struct Answer {
            usage: Option<Value>,
            #[serde(rename = "_meta")]
            meta: Option<Value>,
        }
        let Ok(answer) = answer.decode::<Answer>() else { return };
        let in_meta = || Counts::read(answer.meta.as_ref()?.pointer("/quota/token_count")?);
        let counts = answer.usage.as_ref().and_then(Counts::read).or_else(in_meta);
        if let Some(mut counts) = counts.filter(|_| !self.counted) {
            if known::counts_session(self.server.as_ref()) {
                counts = counts.since(&std::mem::replace(&mut self.counted_before, counts));
            }
            self.report_usage(&counts, all);
        }
    }

    /// Notes the tokens of the session so far, which the next answer includes. The agent reports them between turns, also
    /// when it opens a session again.
    pub(super) fn usage_of_session(&mut self, meta: Option<&acp::Meta>) {
        if self.prompting || !known::counts_session(self.server.as_ref()) {
            return;
        }
        let count = |name: &str| meta?.get(name)?.as_u64();
        if let (Some(input_tokens), Some(output_tokens)) = (count("promptTokens"), count("completionTokens")) {
            let (total_tokens, cached_read_tokens) = (count("totalTokens"), count("cachedTokens"));
            self.counted_before =
                Counts { total_tokens, input_tokens, output_tokens, cached_read_tokens, ..Counts::default() };
        }
    }

    /// Reports the tokens of one request to the model, which come with a piece of text.
    pub(super) fn usage_of_chunk(&mut self, meta: Option<&acp::Meta>, all: &mut Vec<Incoming>) {
        if let Some(counts) = meta.and_then(|meta| Counts::read(meta.get("usage")?)) {
            self.counted = true;
            self.report_usage(&counts, all);
        }
    }

    fn report_usage(&self, counts: &Counts, all: &mut Vec<Incoming>) {
        let mut update = StatusUpdate { token_usage: Some(counts.usage()), ..StatusUpdate::unchanged() };
        update.extra.insert("synthesized", json!(true));
        all.push(Incoming::event(update));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(counts: Value) -> [i64; 4] {
        let usage = Counts::read(&counts).expect("counts").usage();
        [usage.input_other, usage.input_cache_read, usage.input_cache_creation, usage.output]
    }

    #[test]
    fn cached_input_counts_once() {
        let apart = json!({"inputTokens": 100, "outputTokens": 30, "cachedReadTokens": 20, "totalTokens": 150});
        let within = json!({"inputTokens": 120, "outputTokens": 30, "cachedReadTokens": 20, "totalTokens": 150});
        assert_eq!(usage(apart), [100, 20, 0, 30]);
        assert_eq!(usage(within), [100, 20, 0, 30]);
        let without_total = json!({"inputTokens": 120, "outputTokens": 30, "cachedReadTokens": 20});
        assert_eq!(usage(without_total), [100, 20, 0, 30]);
        let written = json!({"inputTokens": 5, "outputTokens": 1, "cachedReadTokens": 2, "cachedWriteTokens": 3,
            "totalTokens": 11});
        assert_eq!(usage(written), [5, 2, 3, 1]);
    }

    #[test]
    fn thinking_counts_as_output_once() {
        let apart = json!({"inputTokens": 100, "outputTokens": 30, "thoughtTokens": 7, "totalTokens": 137});
        let within = json!({"inputTokens": 100, "outputTokens": 30, "thoughtTokens": 7, "totalTokens": 130});
        assert_eq!(usage(apart), [100, 0, 0, 37]);
        assert_eq!(usage(within), [100, 0, 0, 30]);
    }

    #[test]
    fn counts_of_session_become_those_of_turn() {
        let read = |counts: Value| Counts::read(&counts).expect("counts");
        let first = read(json!({"inputTokens": 100, "outputTokens": 10, "totalTokens": 110}));
        let second = read(json!({"inputTokens": 320, "outputTokens": 25, "totalTokens": 345, "cachedReadTokens": 20}));
        let turn = second.since(&first).usage();
        assert_eq!([turn.input_other, turn.input_cache_read, turn.output], [200, 20, 15]);
        // The counter has begun anew.
        let turn = first.since(&second).usage();
        assert_eq!([turn.input_other, turn.input_cache_read, turn.output], [100, 0, 10]);
    }

    #[test]
    fn invalid_token_counts_are_dropped_or_bounded() {
        for counts in [json!({}), json!(3), json!({"inputTokens": -1}), json!({"inputTokens": "x"}), json!(null)] {
            assert!(Counts::read(&counts).is_none(), "{counts}");
        }
        let huge = u64::MAX;
        let counts = json!({"inputTokens": huge, "outputTokens": huge, "thoughtTokens": huge, "totalTokens": huge,
            "cachedReadTokens": huge, "cachedWriteTokens": huge});
        assert_eq!(usage(counts), [0, i64::MAX, i64::MAX, i64::MAX]);
        let partial = json!({"inputTokens": 10.0, "outputTokens": 5, "cachedReadTokens": "x", "thoughtTokens": null,
            "totalTokens": 15.5});
        assert_eq!(usage(partial), [10, 0, 0, 5]);
        assert_eq!(usage(json!({"inputTokens": "10", "outputTokens": 5})), [0, 0, 0, 5]);
        assert_eq!(usage(json!({"inputTokens": 10, "outputTokens": -5})), [10, 0, 0, 0]);
    }
}
