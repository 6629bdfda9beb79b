// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many tokens and requests a step serves, where the name of its annotation
//! tells: vLLM's, SGLang's and TensorRT-LLM's names do.
//!
//! Invariant: no shape is better than one with a number that nobody stated. A
//! decode without a count of tokens makes one for each request.

use metrale_telemetry::kernel::StepShape;

/// What a step's name says of its batch.
pub(super) fn shape(name: &str) -> Option<StepShape> {
    match Batch::of(name) {
        Some(batch) => batch.shape(),
        None => Counts::of(name).shape(),
    }
}

fn new(prompt: u32, decode: u32, requests: u32) -> StepShape {
    StepShape::new().prompt_tokens(prompt).decode_tokens(decode).requests(requests)
}

/// The digits that `text` begins with, as a number.
fn number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().ok()
}

/// A batch as SGLang names it: `step[MODE bs=8 toks=512]`.
pub(super) struct Batch<'a> {
    pub(super) mode: &'a str,
    rest: &'a str,
}

impl<'a> Batch<'a> {
    pub(super) fn of(name: &'a str) -> Option<Self> {
        let batch = name.strip_prefix("step[")?.trim_start();
        let end = batch.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let (mode, rest) = batch.split_at(end.unwrap_or(batch.len()));
        Some(Self { mode, rest })
    }

    /// Whether it extends a sequence by tokens of its prompt.
    pub(super) fn extends(&self) -> bool {
        let words = ["EXTEND", "PREFILL", "MIXED"];
        words.iter().any(|word| self.mode.contains(word)) && !self.mode.contains("DRAFT")
    }

    fn shape(&self) -> Option<StepShape> {
        let stated = |key: &str| {
            let words = self.rest.split(|c: char| c.is_whitespace() || c == ']');
            let mut values = words.filter_map(|word| number(word.strip_prefix(key)?));
            values.next()
        };
        let (requests, tokens) = (stated("bs="), stated("toks="));
        if self.extends() {
            Some(new(tokens?, 0, requests.unwrap_or(0)))
        } else {
            let shape = new(0, tokens.or(requests)?, requests.unwrap_or(0));
            (shape != StepShape::new()).then_some(shape)
        }
    }
}

/// What a name counts of a batch.
#[derive(Default)]
pub(super) struct Counts {
    prompts: Option<u32>,
    prompt_tokens: Option<u32>,
    decodes: Option<u32>,
    decode_tokens: Option<u32>,
}

impl Counts {
    pub(super) fn of(name: &str) -> Self {
        Self::sides(name).unwrap_or_else(|| Self::listed(name))
    }

    /// vLLM's two sides: `context_2(1024)_generation_30(30)`, with `sq` before the
    /// tokens in later versions.
    fn sides(name: &str) -> Option<Self> {
        let side = |word: &str| {
            let mut found = name.match_indices(word);
            found.find_map(|(at, _)| {
                let rest = &name[at + word.len()..];
                let requests = number(rest)?;
                let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
                let tokens = rest.strip_prefix('(').unwrap_or_default();
                Some((requests, number(tokens.strip_prefix("sq").unwrap_or(tokens))))
            })
        };
        let (context, generation) = (side("context_"), side("generation_"));
        context.or(generation)?;
        Some(Self {
            prompts: context.map(|(requests, _)| requests),
            prompt_tokens: context.and_then(|(_, tokens)| tokens),
            decodes: generation.map(|(requests, _)| requests),
            decode_tokens: generation.and_then(|(_, tokens)| tokens),
        })
    }

    /// A list in words: `2 ctx reqs, 1024 ctx tokens, 30 gen reqs`.
    fn listed(name: &str) -> Self {
        let words = name.split(|c: char| !c.is_ascii_alphanumeric());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let mut counts = Self::default();
        for words in words.windows(3) {
            let of_prompts = match words[1] {
                "ctx" | "context" | "prefill" | "prompt" => true,
                "gen" | "generation" | "decode" => false,
                _ => continue,
            };
            let count = match (words[2], of_prompts) {
                ("reqs" | "requests" | "seqs", true) => &mut counts.prompts,
                ("reqs" | "requests" | "seqs", false) => &mut counts.decodes,
                ("tokens" | "toks", true) => &mut counts.prompt_tokens,
                ("tokens" | "toks", false) => &mut counts.decode_tokens,
                _ => continue,
            };
            *count = count.or(words[0].parse().ok());
        }
        counts
    }

    /// Whether the batch has prompts; `None` where nothing is counted.
    pub(super) fn has_prompts(&self) -> Option<bool> {
        let prompts = [self.prompts, self.prompt_tokens].into_iter().flatten();
        let decodes = [self.decodes, self.decode_tokens].into_iter().flatten();
        prompts.map(|count| count > 0).chain(decodes.map(|_| false)).reduce(|any, one| any | one)
    }

    fn shape(&self) -> Option<StepShape> {
        let decode_tokens = self.decode_tokens.or(self.decodes);
        let (prompts, decodes) = (self.prompts.unwrap_or(0), self.decodes.unwrap_or(0));
        let no_prompt = prompts == 0 && decode_tokens.is_some();
        let prompt_tokens = self.prompt_tokens.or(no_prompt.then_some(0))?;
        let requests = prompts.saturating_add(decodes);
        Some(new(prompt_tokens, decode_tokens.unwrap_or(0), requests))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_the_field() {
        for (name, expected) in [
            (
                "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489)",
                Some(new(8_155, 37, 46)),
            ),
            ("execute_context_1(512)_generation_0(0)", Some(new(512, 0, 1))),
            ("execute_32_context_0(sq0sk0)_generation_32(sq32sk9)", Some(new(0, 32, 32))),
            // Speculation verifies several tokens of each.
            ("execute_context_0(0)_generation_8(40)", Some(new(0, 40, 8))),
            ("execute_context_2_generation_3", None),
            ("execute_context_0_generation_3", Some(new(0, 3, 3))),
            ("execute_model", None),
            ("step[EXTEND bs=2 toks=512]", Some(new(512, 0, 2))),
            ("step[EXTEND bs=2]", None),
            ("step[DECODE bs=32]", Some(new(0, 32, 32))),
            ("step[ TARGET_VERIFY bs=8 toks=32 ]", Some(new(0, 32, 8))),
            ("step[DRAFT_EXTEND bs=8 toks=16]", Some(new(0, 16, 8))),
            ("step[IDLE bs=0]", None),
            ("step[7]", None),
            ("ProfilerStep#101", None),
            (
                "[Executor] _forward_step 7: 2 ctx reqs, 1024 ctx tokens, 5 gen reqs",
                Some(new(1_024, 5, 7)),
            ),
            ("[Executor] _forward_step 7: 0 ctx reqs, 5 gen reqs", Some(new(0, 5, 5))),
            // How many tokens, nobody says.
            ("[Executor] _forward_step 7: 2 ctx reqs, 5 gen reqs", None),
            ("step: 30 prefill tokens, 10 decode tokens", Some(new(30, 10, 0))),
            ("step: 30 prefill tokens", Some(new(30, 0, 0))),
            ("step[DECODE bs=99999999999]", None),
        ] {
            assert_eq!(shape(name), expected, "{name}");
        }
    }
}
