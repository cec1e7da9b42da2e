//! The rule language of a script: which calls a rule is for, and what it answers.
//!
//! `<call> <which> [stream=S] [block=B] -> <answer> [<answer>...]`
//!
//! | part | accepted |
//! |---|---|
//! | call | `start`, `progress`, `stop` |
//! | which | `N` (1-based count of calls of that kind on the communicator), `A..B` (both included), `*` |
//! | answer | `ret=N`, `sleep_us=N`, `spin_us=N`, `block`; of progress only: `idle=0`, `idle=1`, `done=0`, `done=1`, `keep` |

use std::fmt;
use std::str::FromStr;

/// One of the three scripted calls. The numbers are those of [`CallRecord::call`](crate::script::CallRecord).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Call {
    /// `neuronStartNetworkProxy`
    Start = 0,
    /// `neuronNetworkProxyProgress`
    Progress = 1,
    /// `neuronStopNetworkProxy`
    Stop = 2,
}

impl Call {
    /// Number of scripted calls.
    pub const COUNT: usize = 3;

    /// Position of this call in an array of [`COUNT`](Self::COUNT) places.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name the rule language uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Progress => "progress",
            Self::Stop => "stop",
        }
    }
}

/// What a call does to the caller's two flags. Only progress has flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flags {
    /// Left as the caller passed them.
    Keep,
    /// Each ANDed into the caller's flag, as the library does.
    And {
        /// Nothing moved.
        idle: bool,
        /// The block is finished.
        done: bool,
    },
}

/// What one call answers, and what it does before it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The status returned.
    pub ret: i32,
    /// What becomes of the flags.
    pub flags: Flags,
    /// Microseconds to sleep before returning.
    pub sleep_us: u64,
    /// Microseconds to burn before returning.
    pub spin_us: u64,
    /// Wait until the script is released.
    pub block: bool,
}

impl Default for Answer {
    /// Success; a progress call finishes the block at once.
    fn default() -> Self {
        Self {
            ret: 0,
            flags: Flags::And {
                idle: false,
                done: true,
            },
            sleep_us: 0,
            spin_us: 0,
            block: false,
        }
    }
}

/// One parsed rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    call: Call,
    first: u64,
    last: u64,
    stream: Option<u32>,
    block: Option<u32>,
    answer: Answer,
}

impl Rule {
    /// The answer, if the rule is for the `nth` call of kind `call` on its communicator (1-based). Stop has no block:
    /// the parser refuses a rule that asks for one.
    #[must_use]
    pub fn answer_to(&self, call: Call, nth: u64, stream: u32, block: u32) -> Option<Answer> {
        let hit = self.call == call
            && (self.first..=self.last).contains(&nth)
            && self.stream.is_none_or(|wanted| wanted == stream)
            && self.block.is_none_or(|wanted| wanted == block);
        hit.then_some(self.answer)
    }
}

/// Why a rule was refused: the word it was at, and what is accepted there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    found: String,
    accepted: &'static str,
}

impl RuleError {
    fn at(found: Option<&str>, accepted: &'static str) -> Self {
        let found = found.map_or_else(|| "the end".into(), |word| format!("'{word}'"));
        Self { found, accepted }
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found {}, accepted: {}", self.found, self.accepted)
    }
}

impl std::error::Error for RuleError {}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let mut words = text.split_whitespace();
        let call = parse_call(words.next())?;
        let (first, last) = parse_which(words.next())?;
        let mut rule = Self {
            call,
            first,
            last,
            stream: None,
            block: None,
            answer: Answer::default(),
        };
        loop {
            let word = words.next();
            match word.map(|w| w.split_once('=').unwrap_or((w, ""))) {
                Some(("->", _)) => break,
                Some(("stream", value)) => rule.stream = Some(parse_number(word, value)?),
                Some(("block", value)) if call != Call::Stop => {
                    rule.block = Some(parse_number(word, value)?)
                }
                _ => {
                    return Err(RuleError::at(
                        word,
                        "stream=S, block=B (not for stop) or ->",
                    ));
                }
            }
        }
        rule.answer = parse_answers(call, words)?;
        Ok(rule)
    }
}

fn parse_call(word: Option<&str>) -> Result<Call, RuleError> {
    [Call::Start, Call::Progress, Call::Stop]
        .into_iter()
        .find(|call| word == Some(call.name()))
        .ok_or_else(|| RuleError::at(word, "start, progress or stop"))
}

fn parse_which(word: Option<&str>) -> Result<(u64, u64), RuleError> {
    let error = || RuleError::at(word, "a call number from 1, a range A..B with A <= B, or *");
    let text = word.ok_or_else(error)?;
    if text == "*" {
        return Ok((1, u64::MAX));
    }
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if (1..=last).contains(&first) => Ok((first, last)),
        _ => Err(error()),
    }
}

fn parse_number<T: FromStr>(word: Option<&str>, value: &str) -> Result<T, RuleError> {
    value
        .parse()
        .map_err(|_| RuleError::at(word, "a decimal number after ="))
}

fn parse_answers<'a>(
    call: Call,
    words: impl Iterator<Item = &'a str>,
) -> Result<Answer, RuleError> {
    let mut answer = Answer::default();
    let (mut idle, mut done, mut keep) = (None, None, false);
    let mut count = 0;
    for word in words {
        count += 1;
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let flagged = call == Call::Progress;
        match name {
            "ret" => answer.ret = parse_number(Some(word), value)?,
            "sleep_us" => answer.sleep_us = parse_number(Some(word), value)?,
            "spin_us" => answer.spin_us = parse_number(Some(word), value)?,
            _ if word == "block" => answer.block = true,
            _ if word == "keep" && flagged && idle.or(done).is_none() => keep = true,
            "idle" if flagged && !keep => idle = Some(parse_flag(word, value)?),
            "done" if flagged && !keep => done = Some(parse_flag(word, value)?),
            _ => {
                let accepted = "ret=N, sleep_us=N, spin_us=N, block; for progress also idle=0|1 and done=0|1, or keep";
                return Err(RuleError::at(Some(word), accepted));
            }
        }
    }
    if count == 0 {
        return Err(RuleError::at(None, "at least one answer"));
    }
    if keep {
        answer.flags = Flags::Keep;
    } else if let Flags::And {
        idle: usual_idle,
        done: usual_done,
    } = answer.flags
    {
        let (idle, done) = (idle.unwrap_or(usual_idle), done.unwrap_or(usual_done));
        answer.flags = Flags::And { idle, done };
    }
    Ok(answer)
}

fn parse_flag(word: &str, value: &str) -> Result<bool, RuleError> {
    match value {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(RuleError::at(Some(word), "0 or 1 after =")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn a_number_matches_that_call_only() {
        let rule = rule("progress 3 -> ret=1206");
        assert_eq!(rule.answer_to(Call::Progress, 2, 0, 0), None);
        assert_eq!(
            rule.answer_to(Call::Progress, 3, 0, 0).map(|a| a.ret),
            Some(1206)
        );
        assert_eq!(rule.answer_to(Call::Progress, 4, 0, 0), None);
        assert_eq!(rule.answer_to(Call::Start, 3, 0, 0), None);
    }

    #[test]
    fn a_range_includes_both_ends() {
        let rule = rule("stop 2..4 -> ret=1");
        let hits: Vec<u64> = (1..=6)
            .filter(|&n| rule.answer_to(Call::Stop, n, 0, 0).is_some())
            .collect();
        assert_eq!(hits, [2, 3, 4]);
    }

    #[test]
    fn stream_and_block_narrow_a_rule() {
        let rule = rule("start * stream=2 block=7 -> ret=2");
        assert!(rule.answer_to(Call::Start, 9, 2, 7).is_some());
        assert!(rule.answer_to(Call::Start, 9, 1, 7).is_none());
        assert!(rule.answer_to(Call::Start, 9, 2, 8).is_none());
    }

    #[test]
    fn every_answer_is_understood() {
        let answer = rule("progress * -> ret=-5 idle=1 done=0 sleep_us=10 spin_us=20 block").answer;
        let flags = Flags::And {
            idle: true,
            done: false,
        };
        let expected = Answer {
            ret: -5,
            flags,
            sleep_us: 10,
            spin_us: 20,
            block: true,
        };
        assert_eq!(answer, expected);
        assert_eq!(rule("progress * -> keep ret=7").answer.flags, Flags::Keep);
    }

    #[test]
    fn flags_that_are_not_named_keep_their_default() {
        let flags = |text| rule(text).answer.flags;
        assert_eq!(
            flags("progress 1 -> idle=1"),
            Flags::And {
                idle: true,
                done: true
            }
        );
        assert_eq!(
            flags("progress 1 -> done=0"),
            Flags::And {
                idle: false,
                done: false
            }
        );
    }

    #[test]
    fn bad_rules_name_the_word_and_what_is_accepted() {
        for (text, found) in [
            ("", "the end"),
            ("poll 1 -> ret=0", "'poll'"),
            ("start 0 -> ret=0", "'0'"),
            ("start 4..2 -> ret=0", "'4..2'"),
            ("start", "the end"),
            ("start 1", "the end"),
            ("start 1 ret=0", "'ret=0'"),
            ("start 1 stream=x -> ret=0", "'stream=x'"),
            ("stop 1 block=1 -> ret=0", "'block=1'"),
            ("start 1 ->", "the end"),
            ("start 1 -> idle=1", "'idle=1'"),
            ("progress 1 -> idle=2", "'idle=2'"),
            ("progress 1 -> keep done=1", "'done=1'"),
            ("progress 1 -> done=1 keep", "'keep'"),
            ("progress 1 -> ret=abc", "'ret=abc'"),
            ("progress 1 -> nap", "'nap'"),
        ] {
            let error = text.parse::<Rule>().expect_err(text);
            assert_eq!(error.found, found, "{text}");
            assert!(error.to_string().contains("accepted: "), "{text}");
        }
    }
}
