//! The keeper of a kgate that knows no node: it refuses.

use std::time::Duration;

use super::keeper::{Keeper, Mail, News, Refusal, RefusalKind, Wish};

/// Refuses, and says why.
#[derive(Debug, Default)]
pub(crate) struct Absent {
    mail: Option<Mail>,
}

pub(crate) fn open() -> Box<dyn Keeper> {
    Box::new(Absent::default())
}

impl Keeper for Absent {
    fn ask(&mut self, wish: &Wish, mail: Mail) {
        let text = format!(
            "no node to ask for {}: this kgate can run commands, but has no client of a node yet",
            wish.gate
        );
        mail.post(News::Refused(Refusal { kind: RefusalKind::NoQuorum, text }));
        self.mail = Some(mail);
    }

    fn release(&mut self) {
        if let Some(mail) = &self.mail {
            mail.post(News::Released);
        }
    }

    fn release_for_the_dead(&mut self, _ticket: &[u8], _limit: Duration) {}
}
