//! The steps of a program and an agent, in order.

use std::time::Duration;

use arbitrary::Arbitrary;

use crate::OnError;
use crate::connection::{AnswerSource, AnswerSources, Timing};
use crate::dialect::{Dialect, Legacy, Wire, WireVersion};

/// The agent's protocol, and how it is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Arbitrary)]
pub(crate) enum Spoken {
    Legacy,
    /// 1.0, known beforehand: there is no handshake.
    V1_0,
    /// 1.0, by its refusal of the handshake.
    Refusing,
    /// Says Wire 1.3, and can do more.
    Ahead,
    /// 1.1 to 1.10, as the handshake tells.
    Wire(Minor),
    /// 1.1 to 1.10, as the program says.
    Pinned(Minor),
}

/// The number behind the dot, 1 to 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Minor(pub(crate) u32);

impl<'a> Arbitrary<'a> for Minor {
    fn arbitrary(bytes: &mut arbitrary::Unstructured<'a>) -> arbitrary::Result<Self> {
        bytes.int_in_range(1..=10).map(Self)
    }
}

impl Spoken {
    pub(crate) fn all() -> &'static [Self] {
        const fn all() -> [Spoken; 24] {
            let mut all = [Spoken::Legacy; 24];
            all[1] = Spoken::V1_0;
            all[2] = Spoken::Refusing;
            all[3] = Spoken::Ahead;
            let mut minor = 1;
            while minor <= 10 {
                all[3 + minor] = Spoken::Wire(Minor(minor as u32));
                all[13 + minor] = Spoken::Pinned(Minor(minor as u32));
                minor += 1;
            }
            all
        }
        static ALL: [Spoken; 24] = all();
        &ALL
    }

    /// As a script names it.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "legacy" => Self::Legacy,
            "1.0" => Self::V1_0,
            "refusing" => Self::Refusing,
            "ahead" => Self::Ahead,
            other => {
                Self::Wire(Minor(other.strip_prefix("1.")?.parse().ok().filter(|minor| (1..=10).contains(minor))?))
            }
        })
    }

    pub(crate) fn dialect(self) -> Box<dyn Dialect> {
        match self {
            Self::Legacy => Box::new(Legacy::new(None)),
            Self::V1_0 => Box::new(Wire::pinned(WireVersion::V1_0)),
            Self::Pinned(Minor(minor)) => Box::new(Wire::pinned(WireVersion::new(1, minor))),
            Self::Refusing | Self::Ahead | Self::Wire(_) => Box::new(Wire::new(WireVersion::LATEST)),
        }
    }

    pub(crate) fn is_legacy(self) -> bool {
        self == Self::Legacy
    }

    pub(crate) fn has_no_handshake(self) -> bool {
        matches!(self, Self::Legacy | Self::V1_0)
    }

    /// The version and the release that the agent names in the handshake; none where it refuses it.
    pub(crate) fn names(self) -> Option<(String, &'static str)> {
        match self {
            Self::Legacy | Self::V1_0 | Self::Refusing => None,
            Self::Ahead => Some(("1.3".to_owned(), "1.14.0")),
            Self::Wire(Minor(minor)) | Self::Pinned(Minor(minor)) => Some((format!("1.{minor}"), "1.5")),
        }
    }

    /// Whether types have the names that they had in 1.0.
    pub(crate) fn is_old(self) -> bool {
        matches!(self, Self::V1_0 | Self::Refusing)
    }
}

#[derive(Clone, Copy, Debug, Arbitrary)]
pub(crate) enum Answering {
    Nobody,
    Yolo,
    Manual,
    Handler,
}

impl From<Answering> for AnswerSource {
    fn from(answering: Answering) -> Self {
        match answering {
            Answering::Nobody => Self::Default,
            Answering::Yolo => Self::Yolo,
            Answering::Manual => Self::Manual,
            Answering::Handler => Self::Handler,
        }
    }
}

#[derive(Clone, Debug, Arbitrary)]
pub(crate) struct Scenario {
    pub(crate) spoken: Spoken,
    pub(crate) approval: Answering,
    pub(crate) question: Answering,
    pub(crate) observed: bool,
    /// Whether turns and silence have their limits.
    pub(crate) limited: bool,
    /// Whether the handshake comes first, as it should.
    pub(crate) greeted: bool,
    pub(crate) steps: Vec<Step>,
}

impl Scenario {
    pub(crate) fn timing(&self) -> Timing {
        let seconds = |seconds| self.limited.then(|| Duration::from_secs(seconds));
        Timing {
            handshake: Duration::from_secs(60),
            cancel: Duration::from_secs(10),
            answer: Duration::from_secs(20),
            turn: seconds(40),
            idle: seconds(15),
            quiet: seconds(5),
        }
    }

    pub(crate) fn policy(&self) -> AnswerSources {
        let question = match self.question {
            // There is no such thing.
            Answering::Yolo => AnswerSource::Handler,
            other => other.into(),
        };
        AnswerSources {
            approval: self.approval.into(),
            question,
            observed: self.observed,
            secrets: Default::default(),
            tools: ["add".to_owned()].into(),
            hooks: [("h".to_owned(), (OnError::Block, "Stop".to_owned()))].into(),
            ..AnswerSources::default()
        }
    }
}

/// The agent's answer to a call.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub(crate) enum Reply {
    Finished,
    Cancelled,
    MaxSteps,
    /// An empty object.
    Nothing,
    Nonsense,
    NotFound,
    Busy,
    Failed,
}

/// The behaviour of a handler.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub(crate) enum Deed {
    Yes,
    No,
    Fail,
}

/// One thing that happens. Numbers count from the newest of what they mean, as far back as there is something.
#[derive(Clone, Debug, Arbitrary)]
pub(crate) enum Step {
    // The program:
    Prompt,
    /// A prompt that is not only text.
    PromptImage,
    Cancel(u8),
    Steer(u8),
    PlanMode(bool),
    Replay,
    /// The caller has been told something else.
    Forget(u8),
    /// By hand, to the request of that id.
    Respond(u8, Deed),
    /// A request that nobody will see.
    Unseen(u8),
    /// A function that was asked does this.
    Handle(u8, Deed),
    ObserverFailed,
    Listen(bool),
    Close,
    /// The executable turned out to be of the legacy kind.
    Assume,
    // The agent:
    Answer(u8, Reply),
    Event(u8),
    Request {
        kind: u8,
        id: u8,
        rpc: u8,
    },
    /// A line of any kind; `@prompt` and the like stand for the id of the newest such call.
    Line(Vec<u8>),
    /// Text of that many bytes.
    Long(u16),
    /// It is gone, and the last so many bytes with it.
    Exit(u8),
    // The pipe: from now on so many bytes are read at a time, 0 for all that there are.
    Pieces(u8),
    // The clock:
    Wait(u8),
    Deadline,
}
