//! One pane of a client: its latest question, who works on it, and the picture that waits to be sent.

use super::Message;
use super::encode::Precision;
use super::request::Pane;
use crate::host::Class;
use crate::{Query, Wish};
use framefold::{Cancel, Error, Result};

/// How many pictures may be on their way before the client says that it has painted one.
const MAX_UNACKNOWLEDGED: usize = 2;
/// How many threads may work for a pane: one, and one that has not noticed yet that it was cancelled.
const MAX_RUNNING: usize = 2;

/// A question.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ask {
    pub(super) generation: u64,
    pub(super) query: Query,
    pub(super) wish: Wish,
    pub(super) precision: Precision,
}

pub(super) struct Slot {
    pane: Pane,
    /// The generation of the latest question that was not taken back.
    current: Option<u64>,
    /// The largest generation there was.
    last: Option<u64>,
    /// The latest question, while no thread works on it.
    asked: Option<Ask>,
    running: Vec<(u64, Cancel)>,
    picture: Option<Vec<u8>>,
    /// What comes after the last picture.
    end: Option<String>,
    n_unacknowledged: usize,
    /// Of which classes there are entries in the host's line.
    entered: [bool; 2],
}

impl Slot {
    pub(super) fn new(pane: Pane) -> Self {
        Slot {
            pane,
            current: None,
            last: None,
            asked: None,
            running: Vec::new(),
            picture: None,
            end: None,
            n_unacknowledged: 0,
            entered: [false; 2],
        }
    }

    /// Takes a question in the place of the one before.
    ///
    /// # Errors
    /// `InvalidArgument` if its generation is not larger than all before.
    pub(super) fn ask(&mut self, ask: Ask) -> Result<()> {
        if let Some(last) = self.last.filter(|last| ask.generation <= *last) {
            let (pane, found) = (self.pane.name(), ask.generation);
            return Err(Error::invalid(format!(
                "'gen' {found} of the pane '{pane}' is not larger than {last}, the one before"
            )));
        }
        self.cancel();
        (self.last, self.current) = (Some(ask.generation), Some(ask.generation));
        self.asked = Some(ask);
        Ok(())
    }

    /// Takes the question back: nothing of it is sent from now on.
    pub(super) fn cancel(&mut self) {
        self.running.iter().for_each(|(_, cancel)| cancel.cancel());
        (self.current, self.asked, self.picture, self.end) = (None, None, None, None);
    }

    /// The client has painted a picture.
    pub(super) fn ack(&mut self) {
        self.n_unacknowledged = self.n_unacknowledged.saturating_sub(1);
    }

    /// As what the question is to be entered in the host's line, if it is not there yet.
    pub(super) fn entry(&mut self) -> Option<Class> {
        if self.running.len() >= MAX_RUNNING {
            return None;
        }
        let class = Class::of(self.asked.as_ref()?.wish);
        let entered = self.entered.get_mut(class as usize)?;
        (!std::mem::replace(entered, true)).then_some(class)
    }

    /// The question, for the thread whose turn an entry is; `None` if it was answered, taken back, or entered as
    /// another class in the meantime.
    pub(super) fn begin(&mut self, class: Class) -> Option<(Ask, Cancel)> {
        if let Some(entered) = self.entered.get_mut(class as usize) {
            *entered = false;
        }
        if self.running.len() >= MAX_RUNNING {
            return None;
        }
        let ask = self.asked.take_if(|ask| Class::of(ask.wish) == class)?;
        let cancel = Cancel::new();
        self.running.push((ask.generation, cancel.clone()));
        Some((ask, cancel))
    }

    pub(super) fn is_current(&self, generation: u64) -> bool {
        self.current == Some(generation)
    }

    /// Puts a picture down in the place of one that waits; `false` if it is stale.
    pub(super) fn offer(&mut self, generation: u64, picture: Vec<u8>) -> bool {
        let current = self.is_current(generation);
        if current {
            self.picture = Some(picture);
        }
        current
    }

    /// The work on a question has ended; `end` is said after its last picture, unless it is stale.
    pub(super) fn finish(&mut self, generation: u64, end: String) {
        self.running.retain(|(running, _)| *running != generation);
        if self.is_current(generation) {
            self.end = Some(end);
        }
    }

    /// What is to be sent of it now.
    pub(super) fn take(&mut self) -> Option<Message> {
        if self.picture.is_some() {
            if self.n_unacknowledged >= MAX_UNACKNOWLEDGED {
                return None;
            }
            self.n_unacknowledged += 1;
            return self.picture.take().map(Message::Bytes);
        }
        self.end.take().map(Message::Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScanQuery;

    fn ask(generation: u64, wish: Wish) -> Ask {
        let query = Query::Scan(ScanQuery::default());
        Ask { generation, query, wish, precision: Precision::U8 }
    }

    fn asked(generation: u64) -> Slot {
        let mut slot = Slot::new(Pane::Scan);
        slot.ask(ask(generation, Wish::Fast)).unwrap();
        slot
    }

    #[test]
    fn the_latest_question_wins() {
        let mut slot = asked(1);
        assert_eq!(slot.entry(), Some(Class::Fast));
        assert_eq!(slot.entry(), None, "entered twice");
        let (first, cancel) = slot.begin(Class::Fast).unwrap();
        assert_eq!(first.generation, 1);
        assert!(slot.offer(1, vec![1]));
        slot.ask(ask(2, Wish::Fast)).unwrap();
        assert!(cancel.is_cancelled());
        assert_eq!(slot.take(), None, "a stale picture");
        assert!(!slot.offer(1, vec![1]));
        slot.finish(1, "stale".to_owned());
        assert_eq!(slot.take(), None, "the end of a stale question");
        assert_eq!(slot.entry(), Some(Class::Fast));
        assert_eq!(slot.begin(Class::Fast).unwrap().0.generation, 2);
        assert!(slot.offer(2, vec![2]));
        slot.finish(2, "done".to_owned());
        assert_eq!(slot.take(), Some(Message::Bytes(vec![2])));
        assert_eq!(slot.take(), Some(Message::Text("done".to_owned())));
    }

    #[test]
    fn generations_grow() {
        let mut slot = asked(7);
        for generation in [7, 6, 0] {
            let error = slot.ask(ask(generation, Wish::Fast)).unwrap_err();
            assert!(error.to_string().contains("'gen'"), "{error}");
        }
        assert!(slot.is_current(7));
    }

    #[test]
    fn two_pictures_may_be_on_their_way_and_the_newest_waits() {
        let mut slot = asked(1);
        slot.begin(Class::Fast);
        for picture in 0..5 {
            slot.offer(1, vec![picture]);
            if picture < 2 {
                assert_eq!(slot.take(), Some(Message::Bytes(vec![picture])));
            }
        }
        slot.finish(1, "done".to_owned());
        assert_eq!(slot.take(), None, "a third one, or the end before the last picture");
        slot.ack();
        assert_eq!(slot.take(), Some(Message::Bytes(vec![4])));
        assert_eq!(slot.take(), Some(Message::Text("done".to_owned())));
        (0..9).for_each(|_| slot.ack());
        assert_eq!(slot.n_unacknowledged, 0);
    }

    #[test]
    fn a_question_taken_back_leaves_nothing() {
        let mut slot = asked(1);
        slot.entry();
        let (_, cancel) = slot.begin(Class::Fast).unwrap();
        slot.offer(1, vec![1]);
        slot.cancel();
        assert!(cancel.is_cancelled() && !slot.offer(1, vec![1]));
        slot.finish(1, "done".to_owned());
        assert_eq!((slot.take(), slot.entry()), (None, None));
    }

    #[test]
    fn a_question_whose_class_changed_is_entered_again_but_never_more_than_once_in_each() {
        let mut slot = asked(0);
        let mut entries = 0;
        for generation in 1..1000 {
            let wish = if generation % 2 == 0 { Wish::Fast } else { Wish::Exact };
            slot.ask(ask(generation, wish)).unwrap();
            entries += usize::from(slot.entry().is_some());
        }
        assert_eq!(entries, 2);
        assert!(slot.begin(Class::Fast).is_none(), "the latest question is no fast one");
        assert_eq!(slot.begin(Class::Slow).unwrap().0.generation, 999);
    }

    #[test]
    fn threads_that_do_not_notice_are_not_joined_by_more() {
        let mut slot = asked(1);
        slot.begin(Class::Fast).unwrap();
        slot.ask(ask(2, Wish::Fast)).unwrap();
        slot.begin(Class::Fast).unwrap();
        slot.ask(ask(3, Wish::Fast)).unwrap();
        assert!(slot.entry().is_none() && slot.begin(Class::Fast).is_none());
        slot.finish(1, String::new());
        assert_eq!(slot.entry(), Some(Class::Fast));
        assert_eq!(slot.begin(Class::Fast).unwrap().0.generation, 3);
    }
}
