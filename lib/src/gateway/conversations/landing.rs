//! Answers as they come in: an answer is whole before its flight is over, or breaks off.

use super::matching::id_of;
use super::spending::{ASIDE, LATE};
use super::{CompletedAnswer, Conversation, ConversationState, Conversations, PartialAnswer};
use crate::gateway::CallCost;
use crate::gateway::watch::AnswerOutcome;
use crate::llm::{LlmError, Response};

impl Conversations {
    /// What arrived of an answer that ends before it is whole.
    pub(in crate::gateway) fn broke_off(&mut self, flight: u64, response: Response, why: &str) {
        if let Some(conversation) = self.flying(flight) {
            conversation.arrived = Some(PartialAnswer { response, why: why.to_owned(), is_told: false });
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
    pub(in crate::gateway) fn answered(&mut self, flight: u64, response: Response, spent: CallCost) -> bool {
        self.total += spent;
        let Some(conversation) = self.flying(flight) else {
            // Its client has asked the same again meanwhile, or it was no part of a conversation after all.
            let purpose = if self.beside.remove(&flight).is_some() { ASIDE } else { LATE };
            self.spend(purpose, &response.model, spent);
            return false;
        };
        conversation.spent += spent;
        conversation.answer_id = id_of(&response);
        conversation.state = ConversationState::Answered(
            flight,
            Box::new(CompletedAnswer { response: Some(response), unread_because: None }),
        );
        self.unanswered = None;
        true
    }

    /// A call beside the conversations is over.
    pub(in crate::gateway) fn landed_aside(&mut self, model: &str, spent: CallCost) {
        self.total += spent;
        self.spend(ASIDE, model, spent);
    }

    /// A flight is over. `before` is what was counted for it when it was answered. Says whether a conversation waited for it
    /// until now.
    pub(in crate::gateway) fn landed(
        &mut self,
        flight: u64,
        outcome: AnswerOutcome,
        spent: CallCost,
        before: Option<CallCost>,
    ) -> bool {
        let more = spent - before.unwrap_or_default();
        self.total += more;
        if before.is_some() {
            // It was answered before it ended; what came after that is only more to pay.
            let open = self.conversations.iter_mut().find(
                |conversation| matches!(conversation.state, ConversationState::Answered(own, _) if own == flight),
            );
            match open {
                Some(conversation) => conversation.spent += more,
                None => self.spend(LATE, "", more),
            }
            return false;
        }
        let beside = self.beside.remove(&flight);
        let Some(conversation) = self.flying(flight) else {
            match beside {
                Some(model) => self.spend(ASIDE, &model, more),
                None => self.spend(LATE, "", more),
            }
            return false;
        };
        conversation.spent += more;
        conversation.state = match outcome {
            AnswerOutcome::Whole(response) => {
                conversation.answer_id = id_of(&response);
                ConversationState::Answered(
                    flight,
                    Box::new(CompletedAnswer { response: Some(*response), unread_because: None }),
                )
            }
            AnswerOutcome::Counted(_, why) => ConversationState::Answered(
                flight,
                Box::new(CompletedAnswer { response: None, unread_because: Some(why) }),
            ),
            AnswerOutcome::Unreadable(..) | AnswerOutcome::Cut(..) | AnswerOutcome::Refused(..) => {
                ConversationState::Failed
            }
        };
        if matches!(conversation.state, ConversationState::Answered(..)) {
            self.unanswered = None;
        }
        true
    }

    fn flying(&mut self, flight: u64) -> Option<&mut Conversation> {
        self.conversations
            .iter_mut()
            .find(|conversation| matches!(conversation.state, ConversationState::Asked(own) if own == flight))
    }
}
