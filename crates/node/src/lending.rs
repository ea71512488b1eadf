//! What the shell of a node does where permits are bound to processes: each grant gets the files
//! that its holder locks, and the core hears that a permit has ended only when no process has the
//! locks any more, whatever the client says.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use kgate_control::state::Slots;

use crate::core::{ClientId, ClientMessage, ErrorCode, ServerMessage, SessionId};
use crate::holder_tree::HolderTree;
use crate::shell::Command;
use crate::slot_files::{Prober, SlotFiles, Watched};

/// The files of the slots, and who has them.
#[derive(Debug)]
pub(crate) struct Lending {
    files: SlotFiles,
    prober: Prober,
    /// The files of each request that holds a permit.
    lent: BTreeMap<(ClientId, u64), Vec<PathBuf>>,
}

/// A message to a client, after this module has seen it.
pub(crate) enum Completed {
    /// To be sent.
    Message(ServerMessage),
    /// The files of this granted request cannot be made. The refusal is to be sent, and the permit
    /// to be released.
    NoFiles { refusal: ServerMessage, number: u64 },
}

impl Lending {
    pub(crate) fn new(files: SlotFiles, prober: Prober) -> Self {
        Self { files, prober, lent: BTreeMap::new() }
    }

    pub(crate) fn note(&self, gate: &str, slots: &Slots) {
        self.files.note(gate, slots);
    }

    /// Adds the files to a grant.
    pub(crate) fn complete(&mut self, client: ClientId, mut message: ServerMessage) -> Completed {
        let ServerMessage::Granted { number, gate, slots, lock_files, .. } = &mut message else {
            return Completed::Message(message);
        };
        match self.files.lend(gate, slots) {
            Ok(names) => {
                self.lent.insert((client, *number), self.files.files_of(gate, slots));
                *lock_files = names;
                Completed::Message(message)
            }
            Err(error) => {
                let number = *number;
                let message = format!("no permit of gate `{gate}`: its lock file: {error}");
                tracing::error!(gate, "{message}");
                let refusal = ServerMessage::Refused { number, code: ErrorCode::NodeGone, message };
                Completed::NoFiles { refusal, number }
            }
        }
    }

    /// A message of a client for the core; none if it has to wait until slots are free.
    pub(crate) fn admit(
        &mut self,
        client: ClientId,
        message: ClientMessage,
    ) -> Option<ClientMessage> {
        let range = match &message {
            ClientMessage::Release { number } => (client, *number)..=(client, *number),
            ClientMessage::Bye => (client, 0)..=(client, u64::MAX),
            ClientMessage::Hello { .. }
            | ClientMessage::Acquire { .. }
            | ClientMessage::Permit { .. }
            | ClientMessage::MarkOnce { .. }
            | ClientMessage::Withdraw { .. }
            | ClientMessage::Renew { .. } => return Some(message),
        };
        let mut used: Vec<PathBuf> = Vec::new();
        for files in self.lent.range_mut(range.clone()).map(|(_, files)| files) {
            files.retain(|file| !crate::slot_files::remove_if_free(file));
            used.extend_from_slice(files);
        }
        if !used.is_empty() {
            let command = Command::Client(client, message);
            self.prober.when_free(Watched { tree: None, files: used, command });
            return None;
        }
        self.lent.retain(|request, _| !range.contains(request));
        Some(message)
    }

    /// The stream of a client has ended.
    pub(crate) fn forget(&mut self, client: ClientId) {
        self.lent.retain(|(holder, _), _| *holder != client);
    }

    /// Reports to the shell when no process uses the slots of a request any more.
    /// The front of a `kgate run` whose guard has died still stops processes that have closed their
    /// locks, so its end is awaited too.
    pub(crate) fn probe(
        &self,
        session: SessionId,
        tree: Option<Arc<HolderTree>>,
        number: u64,
        gate: &str,
        slots: &[u32],
    ) {
        let files = self.files.files_of(gate, slots);
        self.prober.when_free(Watched { tree, files, command: Command::Free(session, number) });
    }
}
