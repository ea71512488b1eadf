//! The codes of a refusal.

use std::fmt;

macro_rules! refuse_codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// Why a node refuses a link. Programs act on the code and never on the message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum RefuseCode {
            $($(#[$doc])* $name,)*
            /// A code of a later version.
            Unknown(u16),
        }

        impl RefuseCode {
            /// The code with this number on the wire.
            pub fn from_u16(number: u16) -> Self {
                match number {
                    $($number => Self::$name,)*
                    unknown => Self::Unknown(unknown),
                }
            }

            /// The number on the wire.
            pub fn to_u16(self) -> u16 {
                match self {
                    $(Self::$name => $number,)*
                    Self::Unknown(number) => number,
                }
            }
        }

        impl fmt::Display for RefuseCode {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name => f.write_str($text),)*
                    Self::Unknown(number) => write!(f, "unknown_{number}"),
                }
            }
        }
    };
}

refuse_codes! {
    /// The bytes are no frame, or a frame that must not come at this point.
    Protocol = 1, "protocol";
    /// The two nodes speak different versions of the wire format.
    Version = 2, "version";
    /// TLS failed, or the certificate is not valid for the node.
    Certificate = 3, "certificate";
    /// The two nodes belong to different clusters.
    Cluster = 4, "cluster";
    /// The connection reached another node than the one that was dialled.
    WrongNode = 5, "wrong_node";
    /// The node that dials is not a peer of the other.
    UnknownNode = 6, "unknown_node";
    /// The node that dials was a member and was removed.
    RemovedNode = 7, "removed_node";
    /// The node with the greater id has dialled.
    WrongDialer = 8, "wrong_dialer";
    /// The two nodes disagree about the number of nodes, or about whether it is fixed.
    Membership = 9, "membership";
    /// A later incarnation of the node is known.
    StaleIncarnation = 10, "stale_incarnation";
    /// The node restarted, and the cluster does not accept restarts.
    RestartNotAccepted = 11, "restart_not_accepted";
    /// The two nodes disagree about which messages were sent and received.
    StateMismatch = 12, "state_mismatch";
    /// The link to this incarnation has failed for good.
    LinkFailed = 13, "link_failed";
    /// This incarnation was declared dead.
    DeclaredDead = 14, "declared_dead";
}
