//! Answers as they come in: an answer is whole before its flight is over, or breaks off.

use super::likeness::id_of;
use super::spending::{ASIDE, LATE};
use super::{Answer, Arrival, State, Talk, Talks};
use crate::gateway::Spent;
use crate::gateway::watch::Heard;
use crate::llm::{LlmError, Response};

impl Talks {
    /// What arrived of an answer that ends before it is whole.
    pub(in crate::gateway) fn broke_off(&mut self, flight: u64, response: Response, why: &str) {
        if let Some(talk) = self.flying(flight) {
            talk.arrived = Some(Arrival { response, why: why.to_owned(), is_told: false });
        }
    }

    /// A call will have no whole answer, for this reason. One that its client has asked again meanwhile, or that is beside
    /// the conversations, tells nothing of them.
    pub(in crate::gateway) fn failed(&mut self, flight: u64, why: LlmError) {
        if self.flying(flight).is_some() {
            self.unanswered = Some(why);
        }
    }

    /// A call is refused before anybody knows which conversation it belongs to.
    pub(in crate::gateway) fn not_taken(&mut self, why: LlmError) {
        self.unanswered = Some(why);
    }

    /// An answer is whole, though more may come that changes what it cost. Says whether a conversation waited for it.
    pub(in crate::gateway) fn answered(&mut self, flight: u64, response: Response, spent: Spent) -> bool {
        self.total += spent;
        let Some(talk) = self.flying(flight) else {
            // Its client has asked the same again meanwhile, or it was no part of a conversation after all.
            let purpose = if self.beside.remove(&flight).is_some() { ASIDE } else { LATE };
            self.spend(purpose, &response.model, spent);
            return false;
        };
        talk.spent += spent;
        talk.answer_id = id_of(&response);
        talk.state = State::Answered(flight, Box::new(Answer { response: Some(response), unheard: None }));
        self.unanswered = None;
        true
    }

    /// A call beside the conversations is over.
    pub(in crate::gateway) fn landed_aside(&mut self, model: &str, spent: Spent) {
        self.total += spent;
        self.spend(ASIDE, model, spent);
    }

    /// A flight is over. `before` is what was counted for it when it was answered. Says whether a conversation waited for it
    /// until now.
    pub(in crate::gateway) fn landed(
        &mut self,
        flight: u64,
        heard: Heard,
        spent: Spent,
        before: Option<Spent>,
    ) -> bool {
        let more = spent - before.unwrap_or_default();
        self.total += more;
        if before.is_some() {
            // It was answered before it ended; what came after that is only more to pay.
            let open =
                self.talks.iter_mut().find(|talk| matches!(talk.state, State::Answered(own, _) if own == flight));
            match open {
                Some(talk) => talk.spent += more,
                None => self.spend(LATE, "", more),
            }
            return false;
        }
        let beside = self.beside.remove(&flight);
        let Some(talk) = self.flying(flight) else {
            match beside {
                Some(model) => self.spend(ASIDE, &model, more),
                None => self.spend(LATE, "", more),
            }
            return false;
        };
        talk.spent += more;
        talk.state = match heard {
            Heard::Whole(response) => {
                talk.answer_id = id_of(&response);
                State::Answered(flight, Box::new(Answer { response: Some(*response), unheard: None }))
            }
            Heard::Counted(_, why) => State::Answered(flight, Box::new(Answer { response: None, unheard: Some(why) })),
            Heard::Unreadable(..) | Heard::Cut(..) | Heard::Refused(..) => State::Failed,
        };
        if matches!(talk.state, State::Answered(..)) {
            self.unanswered = None;
        }
        true
    }

    fn flying(&mut self, flight: u64) -> Option<&mut Talk> {
        self.talks.iter_mut().find(|talk| matches!(talk.state, State::Asked(own) if own == flight))
    }
}
