//! Answers that wait to be sent, in order; pictures are not among them.

use super::{Message, state};
use framefold::Result;
use std::collections::VecDeque;

/// How many answers may wait.
const MAX_WAITING: usize = 256;

#[derive(Default)]
pub(super) struct Outbox {
    waiting: VecDeque<Message>,
    /// How many of them are files.
    n_files: usize,
}

impl Outbox {
    /// # Errors
    /// `Limit` if too many wait already.
    pub(super) fn push(&mut self, message: Message) -> Result<()> {
        if self.waiting.len() >= MAX_WAITING {
            return Err(state::overflow(self.waiting.len()));
        }
        self.n_files += usize::from(is_file(&message));
        self.waiting.push_back(message);
        Ok(())
    }

    /// Puts the last message there will be.
    pub(super) fn last(&mut self, message: Message) {
        self.waiting.push_back(message);
    }

    pub(super) fn pop(&mut self) -> Option<Message> {
        let message = self.waiting.pop_front()?;
        self.n_files = self.n_files.saturating_sub(usize::from(is_file(&message)));
        Some(message)
    }

    pub(super) fn clear(&mut self) {
        *self = Outbox::default();
    }

    /// Files may be large: while one waits, no other is made.
    pub(super) fn has_room_for_files(&self) -> bool {
        self.n_files == 0
    }
}

fn is_file(message: &Message) -> bool {
    matches!(message, Message::Bytes(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_limited() {
        let mut outbox = Outbox::default();
        for _ in 0..MAX_WAITING {
            outbox.push(Message::Text(String::new())).unwrap();
        }
        let error = outbox.push(Message::Text(String::new())).unwrap_err();
        assert!(error.to_string().contains("does not read"), "{error}");
    }

    #[test]
    fn one_file_at_a_time() {
        let mut outbox = Outbox::default();
        assert!(outbox.has_room_for_files());
        outbox.push(Message::Bytes(vec![1])).unwrap();
        assert!(!outbox.has_room_for_files());
        assert_eq!(outbox.pop(), Some(Message::Bytes(vec![1])));
        assert!(outbox.has_room_for_files());
    }
}
